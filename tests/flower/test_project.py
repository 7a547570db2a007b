"""Reading Flower projects; Flower itself is not needed for it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import slotwise
from slotwise.base.errors import InputError, UserError
from slotwise.flower.project import FlowerProject, devices_of, parse_overrides
from slotwise.runs import RunConfig

COMPONENTS = "[tool.flwr.app.components]\nserverapp = 'a.b:app'\nclientapp = 'a.c:app'\n"


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_components_and_configuration(tmp_path: Path) -> None:
    text = COMPONENTS + "[tool.flwr.app.config]\nlr = 0.1\nname = 'x'\na.b = 3\n"
    found = FlowerProject.read(project(tmp_path, text), "lr=0.5 a.b=4 name='two words'")
    assert found.components == {"serverapp": "a.b:app", "clientapp": "a.c:app"}
    assert found.run_config == {"lr": 0.5, "name": "two words", "a.b": 4}
    assert FlowerProject.read(tmp_path, {"lr": 1}).run_config["lr"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tool",
        "[tool.flwr]\napp = 3",
        "[tool.flwr.app]\npublisher = 'x'",
        "[tool.flwr.app.components]\nserverapp = 'a.b:app'",
        COMPONENTS.replace("a.c:app", "a.c"),
        COMPONENTS.replace("'a.c:app'", "7"),
        COMPONENTS + "[tool.flwr.app]\nconfig = 3",
        COMPONENTS + "[tool.flwr.app.config]\nvalues = [1, 2]",
    ],
    ids=range(9),
)
def test_a_wrong_project_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as raised:
        FlowerProject.read(project(tmp_path, text))
    assert raised.value.parameter == "flower_app"
    assert "\n" not in str(raised.value)


def test_a_missing_folder_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "file", tmp_path):
        with pytest.raises(InputError):
            FlowerProject.read(path)


@pytest.mark.parametrize("text", ["lr", "=1", "lr=", "lr=[1]", "lr='x", "other=1"])
def test_a_wrong_override_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError):
        FlowerProject.read(project(tmp_path, COMPONENTS + "[tool.flwr.app.config]\nlr = 0.1\n"), text)


def test_text_needs_no_quotes() -> None:
    assert parse_overrides("a=sgd b=true c=1 d=1.5") == {"a": "sgd", "b": True, "c": 1, "d": 1.5}


def test_missing_modules_and_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = COMPONENTS.replace("a.b", "only_here.server").replace("a.c", "only_here.client")
    found = FlowerProject.read(project(tmp_path, text))
    with pytest.raises(InputError, match="no module only_here"):
        found.load("clientapp")
    (tmp_path / "only_here").mkdir()
    (tmp_path / "only_here" / "client.py").write_text("other = 3")
    with pytest.raises(InputError, match="no app"):
        found.load("clientapp")
    for name in ("only_here", "only_here.client"):
        sys.modules.pop(name, None)


def test_a_name_that_another_module_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = FlowerProject.read(project(tmp_path, COMPONENTS.replace("a.c", "json.client")))
    with pytest.raises(UserError, match="another module json"):
        found.load("clientapp")


def test_the_number_of_nodes_is_the_default_number_of_devices(tmp_path: Path) -> None:
    text = (
        COMPONENTS
        + "[tool.flwr.federations]\ndefault = 'x'\n[tool.flwr.federations.x]\noptions.num-supernodes = 12"
    )
    assert devices_of(project(tmp_path, text)) == 12
    assert RunConfig.from_options({"flower_app": str(tmp_path)}).channel.devices == 12
    assert RunConfig.from_options({"flower_app": str(tmp_path), "devices": 20}).channel.devices == 20
    project(tmp_path, COMPONENTS)
    assert RunConfig.from_options({"flower_app": str(tmp_path)}).channel.devices == 100


@pytest.mark.parametrize("option", ["local_steps", "learning_rate", "data", "network", "task", "batch_size"])
def test_options_that_the_app_decides_are_refused(tmp_path: Path, option: str) -> None:
    values = {"local_steps": 5, "learning_rate": 0.1, "data": "mnist", "network": "cnn", "task": "a:b"}
    with pytest.raises(InputError):
        RunConfig.from_options({"flower_app": str(tmp_path), option: values.get(option, 64)})


def test_the_rest_of_slotwise_names_flower_only_where_extensions_and_public_names_are_listed() -> None:
    package = Path(slotwise.__file__).parent
    others = [path for path in package.rglob("*.py") if path.parent.name != "flower"]
    named = [path for path in others if re.search(r"(?i)(?<!over)flower|flwr(?!labs)", path.read_text())]
    # Flower Labs also publish two of the data sets.
    allowed = {"base/extras.py", "data/hugging_face.py"}
    assert {path.relative_to(package).as_posix() for path in named} == allowed


def test_a_run_is_described_without_importing_flower(tmp_path: Path) -> None:
    project(tmp_path, COMPONENTS)
    code = (
        "import sys, slotwise as sw; config = sw.RunConfig.from_options({'flower_app': sys.argv[1]}); "
        "config.model.check(); assert not [name for name in sys.modules if name.startswith('flwr')]"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
