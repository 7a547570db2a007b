"""Every option that depends on another is refused where it would have no effect."""

import re
from pathlib import Path

import pytest

from slotwise.cli.flags import WITHOUT_FLAG, power_flags, run_flags
from slotwise.errors import NoEffectError
from slotwise.runs import RunConfig

# Arguments of a command, and the option among them that has no effect; also if it has its default value.
POWERS = "--power-computing 1 --power-sending 1 --power-receiving 1"
WITHOUT_EFFECT = [
    ("train --schedule async --participation random", "participation"),
    ("train --participation round-robin", "participation"),
    ("train --schedule sync --delay 1", "delay"),
    ("train --schedule async --delay auto", "delay"),
    ("train --mixing 0.6", "mixing"),
    ("train --aggregation fedbuff --mixing 0.5", "mixing"),
    ("train --discount polynomial", "discount"),
    ("train --aggregation fedasync --discount constant --discount-power 0.5", "discount_power"),
    ("train --aggregation fedasync --discount-slope 10", "discount_slope"),
    ("train --aggregation fedasync --discount-grace 4", "discount_grace"),
    ("train --aggregation fedasync --server-rate 1", "server_rate"),
    ("train --labels-per-device 2", "labels_per_device"),
    ("train --partition iid --labels-per-device 3", "labels_per_device"),
    ("train --partition k-labels --concentration 0.5", "concentration"),
    ("train --retransmission next-turn", "retransmission"),
    ("train --uplink-loss 0 --retransmission at-once", "retransmission"),
    ("train --cycles-per-sample 9 --compute-slots 9", "cycles_per_sample"),
    ("train --cpu-ghz 1", "cpu_ghz"),
    ("train --cpu-slot-ms 1", "cpu_slot_ms"),
    ("train --cpu-kappa 1e-28", "cpu_kappa"),
    ("train --battery-initial 0.5", "battery_initial"),
    ("train --computing-joules 1", "computing_joules"),
    ("train --sending-joules 1", "sending_joules"),
    ("train --harvest-joules 1", "harvest_joules"),
    ("train --battery-joules 999 --computing-joules 1 --harvest-probability 0.5", "harvest_probability"),
    ("train --fleet-seed 1", "fleet_seed"),
    ("train --compute-distribution constant:9 --fleet-seed 0", "fleet_seed"),
    ("train --mean-away 9", "mean_present"),
    ("train --mean-present 9", "mean_away"),
    ("train --compute-slots 50 --compute-distribution uniform:1:9", "compute_slots"),
    ("train --samples-per-slot 50 --compute-distribution uniform:1:9", "samples_per_slot"),
    ("train --link-distribution uniform:1:3 --uplink-slots 2", "link_distribution"),
    ("train --bits-per-slot 1000 --link-slots 2", "bits_per_slot"),
    ("train --bits-per-slot 1000 --uplink-slots 2", "bits_per_slot"),
    ("train --task a:b --channels 10,20", "channels"),
    ("train --task a:b --hidden 50", "hidden"),
    ("train --task a:b --backend numba", "backend"),
    ("train --task a:b --input-scale standard", "input_scale"),
    ("train --task a:b --bits-per-slot 1000", "bits_per_slot"),
    ("train --task a:b --network mlp", "network"),
    ("train --flower-app . --network cnn", "network"),
    ("train --flower-app . --local-steps 5", "local_steps"),
    ("train --flower-app . --data mnist", "data"),
    ("train --flower-app . --bits-per-slot 1000", "bits_per_slot"),
    ("train --flower-app . --task a:b", "flower_app"),
    ("train --flower-app . --samples-per-slot 9", "samples_per_slot"),
    ("train --flower-config a=1", "flower_config"),
    ("train --flower-evaluate a:b", "flower_evaluate"),
    ("train --network logistic --hidden 9", "hidden"),
    ("train --network mlp --channels 9", "channels"),
    ("train --aggregation fedavgm --adaptive-rate 0.01", "adaptive_rate"),
    ("train --server-momentum 0.9", "server_momentum"),
    ("train --aggregation fedadagrad --server-beta1 0.9", "server_beta1"),
    ("train --aggregation fedavgm --server-beta2 0.99", "server_beta2"),
    ("train --server-epsilon 0.001", "server_epsilon"),
    ("train --aggregation median --trim 0.2", "trim"),
    ("train --aggregation median --byzantine 2", "byzantine"),
    ("train --aggregation krum --krum-selected 2", "krum_selected"),
    ("train --largest-norm 1", "largest_norm"),
    ("train --delay-threshold 3", "delay_threshold"),
    ("train --attack-share 0.2", "attack_share"),
    ("train --attack none --attack-scale 3", "attack_scale"),
    ("train --samples-per-device 9 --device-samples 5,2", "samples_per_device"),
    ("train --beta1 0.9", "beta1"),
    ("train --beta2 0.9", "beta2"),
    ("train --epsilon 0.1", "epsilon"),
    ("train --optimizer adam --momentum 0", "momentum"),
    ("train --local-steps 1 --proximal 0.5", "proximal"),
    ("train --local-steps 1 --update mean", "update"),
    ("train --rate-unit slot", "rate_unit"),
    ("train --rate-period 1000", "rate_period"),
    ("train --local-step a:b --optimizer sgd", "optimizer"),
    ("train --local-step a:b --weight-decay 0.1", "weight_decay"),
    ("train --local-step a:b --gradient-clip 1", "gradient_clip"),
    ("train --local-step a:b --proximal 0.1", "proximal"),
    ("train --slot-seconds 2", "power_computing"),
    ("plan --seed 1", "seed"),
    ("plan --uplink-loss 0.1 --fleet-seed 2 --seed 1", "seed"),
    ("plan --local-steps 5", "local_steps"),
    ("plan --batch-size 64", "batch_size"),
    ("plan --retransmission at-once", "retransmission"),
    ("timeline --seed 1", "seed"),
    ("timeline --local-steps 5", "local_steps"),
    ("timeline --batch-size 64", "batch_size"),
    ("timeline --delay 0", "delay"),
    ("timeline --participation random", "participation"),
    ("timeline --json --slots 1:3", "slots"),
    (f"timeline --out a.svg {POWERS}", "power_computing"),
    ("timeline --out a.svg --per-device", "per_device"),
    ("bound --delay 0 --smoothness 1", "delay"),
    ("recommend --target loss=1", "target"),
    ("serve --user me", "user"),
    ("serve --broker mqtt://127.0.0.1 --listen 127.0.0.1:1883", "listen"),
]
# Every option of the radio is refused without one, also with its default value.
WITHOUT_EFFECT += [
    (f"train --{flag.name.replace('_', '-')} {1 if flag.default is None else flag.default}", flag.name)
    for flag in run_flags("radio")
    if flag.name != "radio_link"
]
WITHOUT_EFFECT += [
    ("timeline --radio-link rate-adaptive --link-slots 1", "link_slots"),
    ("timeline --radio-link rate-adaptive --uplink-slots 1", "uplink_slots"),
    ("timeline --radio-link rate-adaptive --radio-band own", "radio_band"),
    ("timeline --radio-link rate-adaptive --radio-threshold-db 1", "radio_threshold_db"),
    ("timeline --radio-link fixed-rate --radio-rate cqi", "radio_rate"),
    ("timeline --radio-link fixed-rate --radio-threshold-db 1 --radio-gap-db 2", "radio_gap_db"),
    ("timeline --radio-link rate-adaptive --radio-placement ring --radio-nearest-m 10", "radio_nearest_m"),
    ("timeline --radio-link rate-adaptive --radio-rician-k-db 6", "radio_rician_k_db"),
    ("timeline --radio-link rate-adaptive --radio-exponent 3", "radio_exponent"),
    ("timeline --radio-link fixed-rate --radio-server-power-dbm 43", "radio_server_power_dbm"),
    ("train --radio-link fixed-rate --radio-device-noise-figure-db 9", "radio_device_noise_figure_db"),
    ("timeline --radio-link fixed-rate --radio-threshold-db 1 --radio-slot-ms 20", "radio_slot_ms"),
    ("timeline --radio-link rate-adaptive --schedule sync --radio-quantile 0.5", "radio_quantile"),
    ("train --radio-link rate-adaptive --schedule async --radio-quantile 0.5", "radio_quantile"),
    ("train --radio-link rate-adaptive --delay 2 --radio-quantile 0.25", "radio_quantile"),
    ("timeline --schedule sync --devices 9 --group-size 9 --participation random", "participation"),
]
# Options of a run that always have an effect.
ALWAYS = (
    *("devices", "group_size", "compute_slots", "link_slots", "deadline", "schedule", "selection"),
    *("sub_channels", "battery_joules"),
    *("compute_distribution", "jitter", "uplink_loss", "fleet_file", "partition", "samples_per_device"),
    *("data_seed", "model_seed", "task", "local_steps", "batch_size", "learning_rate", "update", "seed"),
    *("aggregation", "evaluate_every", "bits", "rate_decay", "local_step"),
    *("attack", "data", "data_folder", "device_samples", "sample_skew", "radio_link"),
)


@pytest.mark.parametrize(("arguments", "option"), WITHOUT_EFFECT)
def test_it_is_refused(slotwise, monkeypatch, tmp_path, arguments, option) -> None:
    monkeypatch.chdir(tmp_path)
    command, *words = arguments.split()
    out = ["--out", "run"] if command in ("train", "recommend", "serve") else []
    code, printed, errors = slotwise(command, *words, *out)
    assert (code, printed) == (2, "")
    assert re.match(f"slotwise: --{option.replace('_', '-')} ", errors)
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "--selection shortest-uplink --schedule async",
        "--participation shortest-uplink --schedule sync",
        "--battery-joules 999 --sending-joules 1 --schedule async",
        "--schedule idfl",
    ],
)
def test_the_quantile_of_planned_uplinks_is_accepted_where_something_plans_with_it(slotwise, words) -> None:
    tiny = "timeline --devices 4 --group-size 2 --compute-slots 3 --deadline 60 --radio-link rate-adaptive"
    code, _, errors = slotwise(*tiny.split(), *words.split(), "--radio-quantile", 0.5)
    assert (code, errors) == (0, "")


@pytest.mark.parametrize(
    "option", ["--group-size 2", "--deadline 9", "--radio-quantile 0.5", "--radio-broadcast-bits 9"]
)
def test_radio_show_has_no_options_of_broadcasts_rounds_and_plans(slotwise, option) -> None:
    code, printed, errors = slotwise("radio", "show", "--devices", 3, *option.split())
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert option.split()[0] in errors


def test_the_table_above_knows_every_option_of_a_run() -> None:
    conditional = {option for arguments, option in WITHOUT_EFFECT} | {"uplink_slots"}
    known = {flag.name for flag in (*run_flags(), *power_flags())} - set(WITHOUT_FLAG)
    own = {name for name in known if name.endswith("_options")}  # of functions of one's own
    refused = {name for name in known - own if not name.startswith("power_") and name != "slot_seconds"}
    assert refused - conditional - set(ALWAYS) == set()


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("labels-per-device = 2", "labels-per-device"),
        ("labels_per_device = 2", "labels_per_device"),
        ("mixing = 0.6", "mixing"),
        ("retransmission = 'next-turn'", "retransmission"),
        ("fleet-seed = 3", "fleet-seed"),
    ],
)
def test_it_is_refused_in_a_file_as_it_is_written_there(slotwise, tmp_path, line, key) -> None:
    path = tmp_path / "run.toml"
    path.write_text(line + "\n")
    code, _, errors = slotwise("train", "--config", path, "--out", tmp_path / "run")
    assert code == 2
    assert errors.startswith(f"slotwise: {path}: {key} = ")
    assert list(tmp_path.iterdir()) == [path]


def test_a_sweep_refuses_it_for_the_combination(slotwise, tmp_path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text("partition = ['iid', 'k-labels']\nlabels-per-device = 2\ndeadline = 100\n")
    code, _, errors = slotwise("sweep", path, "--out", tmp_path / "out")
    assert code == 2
    assert errors.startswith(f"slotwise: {path}: partition=iid: labels-per-device = 2: must be omitted")
    assert list(tmp_path.iterdir()) == [path]


def test_default_values_pass_in_python_and_in_run_json() -> None:
    config = RunConfig().with_options(**RunConfig().options())
    assert config == RunConfig() == RunConfig.from_saved(config.options())
    with pytest.raises(NoEffectError) as caught:
        RunConfig().with_options(mixing=0.5)
    assert caught.value.parameter == "mixing"


def test_a_run_json_with_an_old_name_and_options_without_effect_is_read() -> None:
    saved = RunConfig().options() | {"retransmission": "at-once", "labels_per_device": 5, "loss": 0.0}
    del saved["uplink_loss"], saved["fleet_seed"], saved["data_seed"]
    assert RunConfig.from_saved(saved) == RunConfig()
    lossy = RunConfig.from_saved(saved | {"loss": 0.2})
    assert (lossy.fleet.uplink_loss, lossy.fleet.retransmission) == (0.2, "at-once")


@pytest.mark.parametrize("command", ["train", "plan", "timeline"])
def test_the_old_name_of_the_uplink_loss_tells_the_new_one(slotwise, tmp_path: Path, command: str) -> None:
    code, _, errors = slotwise(command, "--loss", "0.1")
    assert (code, errors) == (2, "slotwise: --loss is now --uplink-loss\n")
    path = tmp_path / "run.toml"
    path.write_text("loss = 0.1\n")
    code, _, errors = slotwise("train", "--config", path, "--out", tmp_path / "run")
    assert (code, errors) == (2, f"slotwise: {path}: unknown option loss: it is now uplink-loss\n")


@pytest.mark.parametrize("arguments", ["train --group-size 5 --group-size 10", "timeline --json --json"])
def test_a_flag_given_twice_is_refused(slotwise, tmp_path: Path, arguments: str) -> None:
    code, _, errors = slotwise(*arguments.split())
    assert code == 2
    assert "multiple times" in errors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("group-sise = 5", "unknown option group-sise: did you mean group-size?"),
        ("group_sise = 5", "unknown option group_sise: did you mean group_size?"),
        ("[fleet]\njitter = 0.1", "unknown table fleet: options are written at the top, without a table"),
        ("[[cases]]\nname = 'a'", "unknown table cases: did you mean case?"),
        ("[power]\nsending = 1", "unknown table power: did you mean powers?"),
        ("[powers]\nsendin = 1", "unknown key of powers sendin: did you mean sending?"),
        ("seed-s = [1]", "unknown option seed-s: did you mean seeds?"),
        ("[[case]]\nname = 'a'\ngroup-sise = 5", "unknown option group-sise: did you mean group-size?"),
    ],
)
def test_a_typo_in_a_sweep_suggests_the_right_name(slotwise, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text + "\n")
    code, _, errors = slotwise("sweep", path, "--out", tmp_path / "out")
    assert (code, errors) == (2, f"slotwise: {path}: {told}\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[power]\nsending = 1", "unknown table power: did you mean powers?"),
        ("batch-sise = 1", "unknown option batch-sise: did you mean batch-size?"),
    ],
)
def test_a_typo_in_the_file_of_recommend_suggests_the_right_name(slotwise, tmp_path, text, told) -> None:
    path = tmp_path / "case.toml"
    path.write_text(text + "\n")
    code, _, errors = slotwise("recommend", "--config", path, "--out", tmp_path / "out")
    assert (code, errors) == (2, f"slotwise: {path}: {told}\n")
