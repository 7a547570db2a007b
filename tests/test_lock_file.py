"""The lock file for development has a fitting version of everything that pyproject.toml asks for."""

import re
import tomllib
from collections.abc import Iterator
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
    (extras,) = re.findall(r"^DEV_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    wanted = [*map(Requirement, TABLES["project"]["dependencies"]), *group("dev")]
    for name in extras.split():
        wanted.extend(extra(name))
    wanted = [requirement for requirement in wanted if applies(requirement, python)]
    assert {canonicalize_name(requirement.name) for requirement in wanted} <= set(versions)
    for requirement in wanted:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_every_entry_has_hashes_and_no_address() -> None:
    assert len(ENTRIES) > 100
    assert [entry for entry, hashes in ENTRIES if not hashes] == []
    assert "://" not in LOCK
    assert "--index-url" not in LOCK
