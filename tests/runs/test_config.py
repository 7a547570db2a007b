import json
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.runs import RunConfig, read_toml


def test_the_defaults_are_the_paper_s_mnist_case() -> None:
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


def test_cifar10_has_the_paper_s_case_of_its_own() -> None:
    parameters = RunConfig.from_options({"data": "cifar10"})
    assert (parameters.channel.devices, parameters.channel.compute_slots, parameters.deadline) == (
        20,
        4,
        100_000,
    )
    assert parameters.training.local_steps == 8


def test_options_win_over_the_case() -> None:
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


@pytest.mark.parametrize("options", [{"devices": 8, "group_size": 10}, {"devices": 0}])
def test_other_devices_and_group_sizes_are_refused_as_before(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        RunConfig.from_options(options)


def test_the_speed_of_a_device_gives_its_compute_slots() -> None:
    assert RunConfig.from_options({"samples_per_slot": 6.4}).channel.compute_slots == 50
    assert RunConfig.from_options({"samples_per_slot": 64, "local_steps": 3}).channel.compute_slots == 3


def test_speed_and_compute_slots_exclude_each_other() -> None:
    with pytest.raises(InputError, match="samples_per_slot"):
        RunConfig.from_options({"samples_per_slot": 6.4, "compute_slots": 50})


@pytest.mark.parametrize(("deadline", "slots"), [(50_000, 500), (25_100, 251), (3000, 30), (199, 1), (60, 1)])
def test_evaluations_are_a_hundredth_of_the_deadline_apart(deadline: int, slots: int) -> None:
    assert RunConfig().with_options(deadline=deadline).slots_between_evaluations == slots


def test_an_interval_that_is_given_is_kept() -> None:
    assert RunConfig().with_options(evaluate_every=7).slots_between_evaluations == 7


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data", "imagenet"),
        ("partition", "fair"),
        ("partition", ["iid"]),
        ("samples_per_device", 0),
        ("samples_per_device", "many"),
        ("labels_per_device", 0),
        ("concentration", 0),
        ("concentration", float("inf")),
        ("concentration", float("nan")),
        ("concentration", 10**400),
        ("input_scale", "large"),
        ("schedule", "later"),
        ("participation", "none"),
        ("devices", 0),
        ("devices", -5),
        ("devices", 2.0),
        ("devices", True),
        ("devices", None),
        ("group_size", 101),
        ("compute_slots", 0),
        ("link_slots", 0),
        ("deadline", 0),
        ("local_steps", 0),
        ("batch_size", 0),
        ("learning_rate", 0),
        ("learning_rate", "fast"),
        ("learning_rate", True),
        ("learning_rate", float("nan")),
        ("update", "max"),
        ("channels", 10),
        ("channels", "10,20"),
        ("channels", [10, 0]),
        ("channels", [1.5]),
        ("hidden", [-1]),
        ("backend", "abacus"),
        ("evaluate_every", 0),
        ("evaluate_every", "often"),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", "lucky"),
    ],
)
def test_a_wrong_value_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        RunConfig.from_options({option: value})
    assert caught.value.parameter == option


def test_a_negative_number_is_told_the_true_bound() -> None:
    with pytest.raises(InputError, match="at least 1"):
        RunConfig.from_options({"devices": -5})


@pytest.mark.parametrize("delay", [[1], [], "soon", 1.5, True, None, {"rounds": 1}])
def test_a_delay_is_auto_or_a_whole_number(delay: object) -> None:
    with pytest.raises(InputError, match=r"delay = .*: must be auto or a whole number"):
        RunConfig.from_options({"delay": delay, "schedule": "idfl"})


@pytest.mark.parametrize("delay", [90, -1])
def test_a_wrong_delay_is_refused_by_the_schedule(delay: object) -> None:
    with pytest.raises(InputError, match="delay"):
        RunConfig.from_options({"delay": delay}).simulate()


def test_whole_numbers_become_floats_where_floats_are_meant() -> None:
    assert isinstance(RunConfig.from_options({"learning_rate": 1}).training.learning_rate, float)


def test_lists_become_tuples() -> None:
    assert RunConfig.from_options({"channels": [3, 4]}).model.network.channels == (3, 4)


def toml(path: Path, text: str) -> Path:
    (path / "run.toml").write_text(text)
    return path / "run.toml"


def test_a_file_s_names_may_have_dashes_or_underscores(tmp_path: Path) -> None:
    text = 'group-size = 5\nbatch_size = 8\nchannels = [1, 2]\ndelay = "auto"\nsamples-per-slot = 6.4\n'
    assert read_toml(toml(tmp_path, text)) == {
        "group_size": 5,
        "batch_size": 8,
        "channels": [1, 2],
        "delay": "auto",
        "samples_per_slot": 6.4,
    }


def test_an_unknown_name_is_told_with_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, "group-sise = 5\n")
    with pytest.raises(UserError, match=f"^{path}: unknown option group-sise: did you mean group-size"):
        read_toml(path)


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


def test_a_configuration_is_read_from_a_toml_file(tmp_path: Path) -> None:
    path = toml(tmp_path, 'data = "cifar10"\ngroup-size = 4\n')
    assert RunConfig.from_toml(path) == RunConfig.from_options({"data": "cifar10", "group_size": 4})


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


def test_another_network_does_not_keep_the_layers_of_the_one_before() -> None:
    mlp = RunConfig().with_options(hidden=(7,)).with_options(network="mlp")
    assert (mlp.model.network.channels, mlp.model.network.hidden) == ((), (64,))
    assert mlp.with_options(network="cnn") == RunConfig()


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


def test_the_rate_of_the_link_counts_the_parameters_of_the_chosen_network() -> None:
    slots = RunConfig.from_options({"network": "logistic", "bits_per_slot": 32}).channel.link_slots
    assert slots == 784 * 10 + 10


def test_an_option_with_dashes_is_named_as_python_writes_it() -> None:
    with pytest.raises(UserError, match="group_size"):
        RunConfig.from_options({"group-size": 3})


def test_a_group_size_that_changes_is_kept_in_the_table_and_replaced_as_a_whole() -> None:
    config = RunConfig.from_options({"group_size": "50@0, 10@10000"})
    assert config.channel.group_size_changes == ((10_000, 10),)
    saved = json.loads(json.dumps(config.options()))
    assert RunConfig.from_saved(saved) == config
    assert config.with_options(deadline=100).channel.group_size_changes == ((10_000, 10),)
    assert config.with_options(group_size=5).channel.group_size_text == "5"
    with pytest.raises(InputError):
        RunConfig.from_options({"group_size": "50@0, 101@10"})
