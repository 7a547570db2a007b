"""pyproject.toml, the lock file for development, CITATION.cff and the hooks of git agree."""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^(\w.*?)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", LOCK, re.MULTILINE)
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def applies(requirement: Requirement, python: str) -> bool:
    on = {"python_version": python, "python_full_version": f"{python}.7"}
    return requirement.marker is None or requirement.marker.evaluate(on)


def locked(python: str) -> dict[str, str]:
    """The version of each package for one Python."""
    entries = [Requirement(entry) for entry, _ in ENTRIES]
    chosen = [entry for entry in entries if applies(entry, python)]
    assert len(chosen) == len({entry.name for entry in chosen})
    return {canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry in chosen}


def group(name: str) -> Iterator[Requirement]:
    for entry in TABLES["dependency-groups"][name]:
        if isinstance(entry, dict):
            yield from group(entry["include-group"])
        else:
            yield Requirement(entry)


def extra(name: str) -> Iterator[Requirement]:
    for entry in map(Requirement, TABLES["project"]["optional-dependencies"][name]):
        if entry.name == "slotwise":
            for other in entry.extras:
                yield from extra(other)
        else:
            yield entry


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_has_a_fitting_version(python: str) -> None:
    versions = locked(python)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (extras,) = re.findall(r"^DEV_EXTRAS := (.*)$", makefile, re.MULTILINE)
    wanted = [*map(Requirement, TABLES["project"]["dependencies"]), *group("dev")]
    for name in extras.split():
        wanted.extend(extra(name))
    wanted = [requirement for requirement in wanted if applies(requirement, python)]
    assert {canonicalize_name(requirement.name) for requirement in wanted} <= set(versions)
    for requirement in wanted:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_the_distribution_for_devices_has_the_same_bounds() -> None:
    device = tomllib.loads((ROOT / "deploy/device/pyproject.toml").read_text(encoding="utf-8"))["project"]
    own, optional = TABLES["project"]["dependencies"], TABLES["project"]["optional-dependencies"]
    known = {*own, *chain.from_iterable(optional.values())}
    assert {*device["dependencies"], *chain.from_iterable(device["optional-dependencies"].values())} <= known
    assert device["requires-python"] == TABLES["project"]["requires-python"]
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(TABLES["project"]["classifiers"]))
    assert versions == PYTHONS
    assert set(device["classifiers"]) <= set(TABLES["project"]["classifiers"])


def test_the_documentation_lists_every_extra() -> None:
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8").partition("### Extras")[2]
    listed = {
        name
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    optional = TABLES["project"]["optional-dependencies"]
    assert listed == {name for name, entries in optional.items() if entries} - {"device"}


def test_every_entry_has_hashes_and_no_address() -> None:
    assert len(ENTRIES) > 100
    assert [entry for entry, hashes in ENTRIES if not hashes] == []
    assert "://" not in LOCK
    assert "--index-url" not in LOCK


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == TABLES["project"]["version"]
    assert set(citation["keywords"]) == set(TABLES["project"]["keywords"])


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None
    assert first[1] == TABLES["project"]["version"]


def test_hooks_run_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\(BIN\)/(\S+)", recipe)) == set(re.findall(r"\.venv/bin/(\S+)", hooks))
