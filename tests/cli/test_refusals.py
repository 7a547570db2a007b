"""What a command refuses ends with exit code 2 and one line that names the option, and nothing is written.

Which values are refused is tested where options are declared and checked. Here every command and every kind
of flag has an example or two.
"""

from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.options import declared
from slotwise.runs import RunConfig

OTHERS = "--initial-gradient2 9 --heterogeneity 4"
CONSTANTS = f"--smoothness 1 --initial-gap 2 --gradient-noise 1 --noise-growth 1 {OTHERS}"
POWERS = "--power-computing 1 --power-sending 1 --power-receiving 1"
NOWHERE = "--broker mqtt://127.0.0.1:1"
REFUSED = [
    # a wrong value, a missing one, an option that there is not, and one without effect
    ("plan --group-size 101", "--group-size 101: must be from 1 to 100, the number of devices"),
    ("plan --group-size 1 --group-size 0", "--group-size"),
    ("plan --devices 1.5", "--devices"),
    ("plan --devices", "--devices"),
    ("plan --speed 3", "--speed"),
    ("plan --clients 3", "unknown option --clients: did you mean --devices?"),
    ("train --lr 0.1", "unknown option --lr: did you mean --learning-rate?"),
    ("plan --devices 100 extra", "extra"),
    ("plan --deadline 51", "--deadline 51: must be at least 52, the slots of the shortest first round"),
    ("plan --samples-per-slot 6.4 --compute-slots 50", "--samples-per-slot"),
    (
        "train --out OUT --group-rule shrink-when-stalled --group-size 10@0,5@200",
        "--group-rule shrink-when-stalled: must be fixed if --group-size has changes",
    ),
    ("plan --group-rule shrink-when-stalled", "--group-rule shrink-when-stalled: must be used with train"),
    ("plan --mean-present 5", "--mean-away is missing; it must be given together with --mean-present"),
    ("plan --local-steps 5", "--local-steps 5"),
    ("plan --slot-seconds 3", "--slot-seconds 3.0: must be omitted without power_computing"),
    ("plan --seed 1", "--seed 1"),
    ("plan --compute-distribution constant:-3", "--compute-distribution constant:-3: must be"),
    ("plan --radio-link rate-adaptive --radio-nearest-m 900", "--radio-nearest-m"),
    ("timeline --out a.pdf", "--out a.pdf: must be a file name that ends in .svg, .png or .html"),
    ("timeline --out no/a.svg", "cannot write no/a.svg: there is no folder"),
    ("timeline --slots 9:3", "--slots 9:3: must be A:B with A below B, within 0:20"),
    ("timeline --slots 0:5 --json", "--slots 0:5: must be omitted with --json"),
    ("timeline --deadline 9000 --slots : --out a.svg", "--slots 0:8999: must be at most 2,000 slots"),
    ("timeline --deadline 3", "--deadline 3: must be at least 5, the slots of the first round"),
    ("timeline --delay 5", "--delay 5: must be omitted with schedule async"),
    ("timeline --batch-size 64", "--batch-size 64"),
    ("timeline --json --json", "multiple times"),
    (f"timeline --out a.svg {POWERS}", "--power-computing"),
    ("timeline --out a.svg --per-device", "--per-device"),
    ("timeline --radio-radius-m 100", "--radio-radius-m"),
    ("timeline --radio-link rate-adaptive --radio-trace none.csv", "none.csv"),
    ("timeline --loss 0.1", "--loss is now --uplink-loss"),
    ("train", "--out is missing; it must be the folder of the new run"),
    ("train --out OUT --workers two", "--workers"),
    ("train --out OUT --checkpoint-every nan", "--checkpoint-every"),
    ("train --out OUT --channels 2,x", "--channels"),
    ("train --out OUT --samples-per-device 6000", "--samples-per-device 6000"),
    ("train --out OUT --learning-rate inf", "--learning-rate inf"),
    ("train --out OUT --compute-slots 9 --fleet-file no.csv", "cannot be combined with"),
    ("train --out OUT --bits-per-slot 9 --link-slots 2", "cannot be combined with --link-slots"),
    ("plan --task-options x=3", "--task-options"),
    ("train --out OUT --task-options x=3", "must be omitted without task"),
    ("plan --local-steps 3", "without --samples-per-slot or --cycles-per-sample"),
    ("plan --participation-options.x 3", "unknown option"),
    ("train --out OUT --mixing 0.6", "--mixing 0.6: must be omitted"),
    ("train --out OUT --power-computing 1", "--power-sending"),
    ("train --out OUT --config none.toml", "none.toml"),
    ("train --out OUT --task no_such_module:make", "there is no module no_such_module"),
    ("train --out OUT --track wandb,wandb", "wandb is repeated"),
    ("train --resume OUT", "not a run folder"),
    ("train --resume OUT --seed 1", "--seed cannot be combined with --resume"),
    ("train --resume OUT --overwrite", "--overwrite cannot be combined with --resume"),
    ("bound", "--smoothness is missing"),
    ("bound " + CONSTANTS.replace("--smoothness 1", "--smoothness nan"), "--smoothness"),
    ("bound " + CONSTANTS.replace("--initial-gap 2", "--initial-gap inf"), "--initial-gap"),
    ("bound " + CONSTANTS.replace("--gradient-noise 1", "--gradient-noise -1"), "--gradient-noise"),
    ("bound " + CONSTANTS.replace("--noise-growth 1", "--noise-growth 0.9"), "--noise-growth"),
    (f"bound {CONSTANTS} --learning-rate 0", "--learning-rate"),
    (f"bound {CONSTANTS} --rounds 0", "--rounds"),
    (f"bound {CONSTANTS} --deadline 10", "--deadline"),
    (f"bound {CONSTANTS} --group-size 7", "--group-size"),
    (f"bound {CONSTANTS} --delay 3", "--delay"),
    (f"bound {CONSTANTS} --schedule idfl --delay 10", "--delay"),
    (f"bound {CONSTANTS} --schedule sync", "--schedule"),
    (f"bound {CONSTANTS} --out bound.gif", "--out"),
    ("bound --estimate /no/such/run", "/no/such/run"),
    ("bound --estimate /no/such/run --devices 10", "--devices"),
    ("radio show --radio-fading weibull", "--radio-fading"),
    ("radio show --radio-bandwidth-hz -3", "--radio-bandwidth-hz"),
    ("radio show --radio-rate mcs", "--radio-rate"),
    ("radio export --out /nowhere/trace.csv", "/nowhere"),
    ("timeline --radio-link morse", "--radio-link"),
    ("timeline --radio-link fixed-rate --radio-threshold-db 150", "--radio-power-dbm"),
    ("plan --radio-link rate-adaptive --radio-power-dbm -90", "--radio-power-dbm"),
    ("train --out OUT --data shakespeare", "--data shakespeare: must be used with a task of your own"),
    ("train --out OUT --device-samples -1,1", "--device-samples -1 (number 1 of the list): must be"),
    ("data show --partition shards --shards-per-device 100000", "--shards-per-device 100000: must be at"),
    ("data show --partition pathological --labels-per-device 11", "--labels-per-device 11: must be from 1"),
    ("data show --partition shards --concentration 2", "--concentration 2.0: must be omitted with partition"),
    ("data show --out picture.txt", "--out picture.txt: must be a file that ends in .png, .svg or .pdf"),
    ("explore no/such/folder", "no/such/folder"),
    ("explore --port x", "--port"),
    ("explore a b", "b"),
    ("radio show --group-size 2", "--group-size"),
    ("radio export", "--out"),
    ("radio export --devices 2 --deadline 5 --out own.toml", "must be a file name that ends in .csv"),
    ("radio export --out x.csv --devices 1000000", "--deadline"),
    ("show OUT", "no such file or folder"),
    (f"show OUT {POWERS} --power-idle nan", "--power-idle"),
    ("show OUT --metric f1", "--metric"),
    ("sweep no.toml --out OUT", "no.toml"),
    ("sweep no.toml", "--out"),
    ("recommend --out OUT --group-sizes 1,200", "--group-sizes 200"),
    ("recommend --out OUT --group-sizes a", "--group-sizes a"),
    ("recommend --out OUT --seeds 1,1", "--seeds"),
    ("recommend --out OUT --budget 3", "--budget 3"),
    ("recommend --out OUT --deadline 9", "--deadline 9"),
    ("recommend --out OUT --metric joules-to-target", "--target"),
    ("recommend --out OUT --metric joules-to-target --target loss=1", "--metric"),
    ("recommend --out OUT --target loss=1", "--target loss=1"),
    ("reproduce figure9 --out OUT", "figure9: must be all, a study or an experiment"),
    ("reproduce cifar10 --quick --out OUT", "cifar10: must be omitted with --quick, which has all,"),
    ("reproduce fig99 --out OUT", "or an experiment; the studies are schedule, mnist, "),
    ("reproduce --seeds 0 --out OUT", "--seeds 0"),
    ("reproduce tuned mnist --out OUT", "tuned is a study of its own"),
    ("reproduce tuned --seeds 3 --out OUT", "--seeds 3: must be omitted for tuned"),
    ("reproduce tuned --quick --out OUT", "--quick"),
    ("reproduce tuned --group-sizes 7 --out OUT", "--group-sizes 7: must be 1 or 5 or 10"),
    ("reproduce tuned --parts all --out OUT", "--parts all: must be schedules or delays"),
    ("reproduce mnist --parts iid --out OUT", "--parts iid: must be omitted for all but tuned"),
    ("serve", "--out"),
    ("serve --out OUT --slot-ms 5 --as-fast-as-possible", "--slot-ms"),
    (f"serve --out OUT --listen 127.0.0.1:1883 {NOWHERE}", "--listen cannot be combined with --broker"),
    ("serve --out OUT --go-on --resume run", "--resume cannot be combined with --go-on"),
    ("serve --resume run --group-size 3", "--group-size cannot be combined with --resume"),
    ("serve --out OUT --clip-norm on", "auto, off or a number"),
    ("serve --out OUT --log-level loud", "--log-level"),
    ("serve --out OUT --name a/b", "--name"),
    ("serve --out OUT --slot-ms 0", "--slot-ms"),
    ("serve --out OUT --listen ::1:1", "--listen"),
    ("serve --out OUT --clip-norm -1", "--clip-norm"),
    ("serve --out OUT --longest-training 0", "--longest-training"),
    ("serve --out OUT --longest-training 9 --slot-ms 5", "--longest-training"),
    ("serve --out OUT --cool-down inf", "--cool-down"),
    ("serve --out OUT --timeout 0", "--timeout"),
    ("serve --out OUT --wait 0", "--wait"),
    ("serve --out OUT --devices 10001", "--devices"),
    ("serve --out OUT --broker host", "--broker"),
    (f"serve --out OUT --ca ca.crt {NOWHERE}", "--ca"),
    ("serve --out OUT --user u", "--user"),
    (f"serve --out OUT --wait 1e-9 {NOWHERE}", "cannot reach a broker"),
    ("serve --out OUT --like nowhere", "nowhere: not a run folder"),
    ("serve --out OUT --user u --credentials x.toml", "--user cannot be combined with --credentials"),
    ("serve --out OUT --page-listen 127.0.0.1:9", "--page-listen 127.0.0.1:9"),
    ("serve --resume nowhere", "nowhere: not a run folder"),
    (f"device --id 1 --task nosuch {NOWHERE}", "--task"),
    ("device --id 0", "--id"),
    ("fleet --devices 2 --processes 3", "--processes"),
    ("fleet --first 0 --processes 2", "--first"),
    ("fleet --task nosuch:make", "there is no module nosuch"),
    ("enroll OUT --host localhost", "--devices is missing"),
    ("enroll OUT --devices 3 --host a --host b:1", "--host b:1"),
    ("enroll OUT --devices 3 --host a --port 70000", "--port 70000"),
    ("enroll OUT --add 1", "not an enrolment"),
    ("enroll OUT --add 1 --devices 3", "--devices cannot be combined with --add"),
    ("enroll OUT --revoke 1 --passwords", "--certificates cannot be combined with --revoke"),
    ("calibrate OUT", "no such file or folder"),
    ("bench --repeats 0", "--repeats"),
    ("bench --seconds 0.01", "--seconds"),
    ("data fetch imagenet", "imagenet"),
    ("data import cifar10 OUT", "OUT"),
    ("explore --port 99999", "--port 99999"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_a_mistake_is_one_line_and_leaves_nothing(
    slotwise, monkeypatch, tmp_path: Path, arguments: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed, errors = slotwise(*arguments.split())
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("slotwise: ")
    assert told in errors
    assert list(tmp_path.iterdir()) == []


def conditional() -> list[str]:
    """Return the options that only some choices have, by what is declared."""
    return [name for name, option in declared(RunConfig).items() if option.owners and all(option.owners)]


@pytest.mark.parametrize("option", conditional())
def test_an_option_of_a_choice_that_was_not_made_is_refused(option: str) -> None:
    default = declared(RunConfig)[option].default
    if option in RunConfig().options():  # the default choices have it
        return
    with pytest.raises(UserError, match=option.removesuffix("_options")):
        RunConfig.from_options({option: default or 1})


@pytest.mark.parametrize(
    ("command", "line", "told"),
    [
        ("train", "labels-per-device = 2", "labels-per-device = 2: must be omitted"),
        ("train", "labels_per_device = 2", "labels_per_device = 2: must be omitted"),
        ("train", "mean-present = 5", "mean-away is missing; it must be given together with mean-present"),
        ("train", "learning-rate = 'fast'", "learning-rate = 'fast': must be a number"),
        ("train", "seeds = [0, 1]", "seeds"),
        ("train", "loss = 0.1", "unknown option loss: it is now uplink-loss"),
        ("train", "x = [", ""),
        ("sweep", "group-sise = 1", "unknown option group-sise: did you mean group-size?"),
        ("sweep", "group-size = []", "group-size"),
        ("sweep", "partition = ['iid', 'k-labels']\nlabels-per-device = 2", "partition=iid: labels"),
        ("sweep", "[powers]\nsendin = 1", "unknown key of powers sendin: did you mean sending?"),
        ("recommend", "group-size = 5", "group-size = 5"),
        ("recommend", "evaluate-every = 10000", "evaluate-every = 10000"),
        ("recommend", "[powers]\ncomputing = 1", "powers: sending"),
        ("recommend", "[power]\nsending = 1", "unknown table power: did you mean powers?"),
        ("serve", "uplink-loss = 0.1", "uplink-loss = 0.1"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_names_the_file_and_the_key_as_it_is_written(
    slotwise, tmp_path: Path, command: str, line: str, told: str
) -> None:
    path = tmp_path / "options.toml"
    path.write_text(line + "\n")
    words = [path] if command == "sweep" else ["--config", path]
    code, printed, errors = slotwise(command, *words, "--out", tmp_path / "out")
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert str(path) in errors
    assert told in errors
    assert list(tmp_path.iterdir()) == [path]


def test_a_mistake_in_a_file_of_devices_names_row_and_column(slotwise, tmp_path: Path) -> None:
    path = tmp_path / "fleet.csv"
    path.write_text("device,compute_slots\n1,2\n2,slow\n")
    code, printed, errors = slotwise("plan", "--fleet-file", path)
    assert (code, printed) == (2, "")
    assert errors.startswith(f"slotwise: {path}, row 3, column compute_slots: slow: must be a whole number")


def test_defaults_old_names_and_options_without_effect_are_read_from_run_json() -> None:
    config = RunConfig().with_options(**RunConfig().options())
    assert config == RunConfig() == RunConfig.from_saved(config.options())
    saved = RunConfig().options() | {"retransmission": "at-once", "labels_per_device": 5, "loss": 0.0}
    for name in ("uplink_loss", "fleet_seed", "data_seed"):
        saved.pop(name, None)
    assert RunConfig.from_saved(saved) == RunConfig()
    lossy = RunConfig.from_saved(saved | {"loss": 0.2}).options()
    assert (lossy["uplink_loss"], lossy["retransmission"]) == (0.2, "at-once")
