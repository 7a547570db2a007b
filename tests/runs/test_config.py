import json
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.runs import RunConfig, read_toml


def test_the_paper_s_cases_are_defaults_and_options_win() -> None:
    parameters = RunConfig.from_options({})
    assert parameters == RunConfig()
    assert (parameters.channel.devices, parameters.channel.compute_slots, parameters.deadline) == (
        100,
        50,
        50_000,
    )
    assert (
        parameters.training.local_steps,
        parameters.training.batch_size,
        parameters.training.learning_rate,
    ) == (5, 64, 0.01)
    parameters = RunConfig.from_options({"data": "cifar10"})
    assert (parameters.channel.devices, parameters.channel.compute_slots, parameters.deadline) == (
        20,
        4,
        100_000,
    )
    assert parameters.training.local_steps == 8
    parameters = RunConfig.from_options({"data": "cifar10", "devices": 7, "group_size": 3})
    assert (parameters.channel.devices, parameters.channel.group_size, parameters.channel.compute_slots) == (
        7,
        3,
        4,
    )


@pytest.mark.parametrize(
    ("options", "group_size"),
    [({"devices": 8}, 8), ({"devices": 12}, 10), ({"data": "cifar10", "devices": 3}, 3), ({"devices": 1}, 1)],
)
def test_a_group_size_that_is_not_given_is_at_most_the_number_of_devices(
    options: dict[str, object], group_size: int
) -> None:
    assert RunConfig.from_options(options).channel.group_size == group_size


def test_the_speed_of_a_device_gives_its_compute_slots_and_excludes_them() -> None:
    assert RunConfig.from_options({"samples_per_slot": 6.4}).channel.compute_slots == 50
    assert RunConfig.from_options({"samples_per_slot": 64, "local_steps": 3}).channel.compute_slots == 3
    with pytest.raises(InputError, match="samples_per_slot"):
        RunConfig.from_options({"samples_per_slot": 6.4, "compute_slots": 50})


@pytest.mark.parametrize(("deadline", "slots"), [(50_000, 500), (25_100, 251), (3000, 30), (199, 1), (60, 1)])
def test_evaluations_are_a_hundredth_of_the_deadline_apart(deadline: int, slots: int) -> None:
    assert RunConfig().with_options(deadline=deadline).slots_between_evaluations == slots


def test_values_are_converted_and_bounds_are_true() -> None:
    with pytest.raises(InputError, match="at least 1"):
        RunConfig.from_options({"devices": -5})
    assert isinstance(RunConfig.from_options({"learning_rate": 1}).training.learning_rate, float)
    assert RunConfig.from_options({"channels": [3, 4]}).model.network.channels == (3, 4)
    assert RunConfig().with_options(evaluate_every=7).slots_between_evaluations == 7
    with pytest.raises(UserError, match="group_size"):
        RunConfig.from_options({"group-size": 3})


@pytest.mark.parametrize("delay", [90, -1])
def test_a_wrong_delay_is_refused_by_the_schedule(delay: object) -> None:
    with pytest.raises(InputError, match="delay"):
        RunConfig.from_options({"delay": delay}).simulate()


def toml(path: Path, text: str) -> Path:
    (path / "run.toml").write_text(text)
    return path / "run.toml"


def test_a_file_s_names_may_have_dashes_or_underscores_and_no_others(tmp_path: Path) -> None:
    text = 'group-size = 5\nbatch_size = 8\nchannels = [1, 2]\ndelay = "auto"\nsamples-per-slot = 6.4\n'
    assert read_toml(toml(tmp_path, text)) == {
        "group_size": 5,
        "batch_size": 8,
        "channels": [1, 2],
        "delay": "auto",
        "samples_per_slot": 6.4,
    }
    path = toml(tmp_path, "group-sise = 5\n")
    with pytest.raises(UserError, match=f"^{path}: unknown option group-sise: did you mean group-size"):
        read_toml(path)
    path = toml(tmp_path, 'data = "cifar10"\ngroup-size = 4\n')
    expected = RunConfig.from_options({"data": "cifar10", "group_size": 4})
    assert RunConfig.from_toml(path) == RunConfig.from_toml(str(path)) == expected


@pytest.mark.parametrize("text", ["group-size", "= 3", "a = 1\na = 2", "seed = " + "9" * 5000])
def test_bad_toml_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="valid TOML") as caught:
        read_toml(toml(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("bytes.toml", "missing.toml", "."):
        with pytest.raises(InputError, match="config") as caught:
            read_toml(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "channels", "hidden"),
    [
        ({}, (10, 20), (50,)),
        ({"hidden": [7]}, (10, 20), (7,)),
        ({"network": "mlp"}, (), (64,)),
        ({"network": "mlp", "hidden": [30, 20]}, (), (30, 20)),
        ({"network": "logistic"}, (), ()),
    ],
)
def test_a_network_has_its_own_default_layers(
    options: dict[str, object], channels: tuple[int, ...], hidden: tuple[int, ...]
) -> None:
    config = RunConfig.from_options(options)
    assert (config.model.network.channels, config.model.network.hidden) == (channels, hidden)
    assert RunConfig.from_saved(config.options()) == config
    assert [kernel[0] for kernel in config.network().convolutions] == list(channels)
    assert config.network().hidden == hidden


def test_the_network_decides_its_layers_and_the_slots_of_the_link() -> None:
    mlp = RunConfig().with_options(hidden=(7,)).with_options(network="mlp")
    assert (mlp.model.network.channels, mlp.model.network.hidden) == ((), (64,))
    assert mlp.with_options(network="cnn") == RunConfig()
    slots = RunConfig.from_options({"network": "logistic", "bits_per_slot": 32}).channel.link_slots
    assert slots == 784 * 10 + 10


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"network": "lstm"}, "network"),
        ({"network": "mlp", "channels": [3]}, "channels"),
        ({"network": "mlp", "hidden": []}, "hidden"),
        ({"network": "logistic", "channels": [3]}, "channels"),
        ({"network": "logistic", "hidden": [3]}, "hidden"),
    ],
)
def test_layers_that_a_network_does_not_have_are_refused(options: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as refused:
        RunConfig.from_options(options)
    assert refused.value.parameter == parameter


def test_a_group_size_that_changes_is_kept_in_the_table_and_replaced_as_a_whole() -> None:
    config = RunConfig.from_options({"group_size": "50@0, 10@10000"})
    assert config.channel.group_size_changes == ((10_000, 10),)
    saved = json.loads(json.dumps(config.options()))
    assert RunConfig.from_saved(saved) == config
    assert config.with_options(deadline=100).channel.group_size_changes == ((10_000, 10),)
    assert config.with_options(group_size=5).channel.group_size_text == "5"
    with pytest.raises(InputError):
        RunConfig.from_options({"group_size": "50@0, 101@10"})
