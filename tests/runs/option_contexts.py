"""For every option of a run, a tiny context in which it matters, and a value that is not the one there.

A context is a table of options on top of `TINY`; None takes an option of `TINY` away. A new option needs an
entry here: the tests that use the table fail without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.data import Dataset
from slotwise.learning import Diverged, train
from slotwise.runs import RunConfig
from slotwise.runs.decided_run import PolicyAgent, episode_of
from slotwise.runs.execution import build_task
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.slot_duration import powers_of_run

ROOT = Path(__file__).parents[2]
FOUND = object()  # the value of an option that is found in a file and never given
TINY = {
    **{"devices": 4, "group_size": 2, "compute_slots": 3, "deadline": 60, "network": "logistic"},
    **{"samples_per_device": 8, "batch_size": 4, "local_steps": 2},
}
POWERS = Powers(computing=3.0, sending=5.0, receiving=2.0)
RADIO = {"radio_link": "rate-adaptive"}
FIXED = {"radio_link": "fixed-rate"}
LOG_DISTANCE = {**RADIO, "radio_path_loss": "log-distance"}
BATTERIES = {"battery_joules": 50.0, "computing_joules": 2.0, "sending_joules": 2.0, "harvest_joules": 0.5}
WINDOWS = {"window_period": 10, "window_length": 5}
CPU = {"compute_slots": None, "cycles_per_sample": 1e6, "cpu_ghz": 1.0, "cpu_slot_ms": 1.0}
QUEUE = {"devices": 8, "compute_slots": 1}  # devices wait for the channel, so models may be late
SEVERAL = {**RADIO, **QUEUE, "group_size": 4, "radio_bits": 2_000_000}  # send together
NOMA = {**SEVERAL, "access": "noma"}
OFDMA = {**SEVERAL, "access": "ofdma"}
AIR = {**SEVERAL, "access": "over-the-air"}
LEARNED = {"schedule": "sync", "devices": 8}
OORT = {**LEARNED, "participation": "oort", "device_link_slots": (1, 2, 3, 4, 1, 2, 3, 4)}
STALLED = {"group_rule": "shrink-when-stalled", "stall_rounds": 1, "learning_rate": 5.0}
STALLED |= {**LEARNED, "group_size": 4}
EIGHT = {"devices": 8, "group_size": 8}  # enough updates in a round for Krum
FEDASYNC = {"schedule": "async", "group_size": 1, "aggregation": "fedasync"}
FLOWER = {
    **dict.fromkeys((*TINY, "network")),
    **{"devices": 4, "group_size": 2, "compute_slots": 3, "deadline": 20},
    "flower_app": str(ROOT / "examples" / "flower_numpy"),
}
PER_CLASS = {"samples_per_device": None, "partition": "dirichlet-per-class"}
HUB = {"data": "hf:me/set"}  # its options decide which file of the cache is read
TORCHVISION = {"data": "torchvision:EMNIST"}
SLOW = ("backend",)  # it imports PyTorch

CHANNEL: dict[str, tuple[dict[str, Any], Any]] = {
    "devices": ({}, 5),
    "group_size": ({}, 1),
    "group_size_changes": ({}, ((10, 1),)),
    "compute_slots": ({}, 4),
    "link_slots": ({}, 2),
    "deadline": ({}, 40),
    "sub_channels": ({}, 2),
    "duplex": (QUEUE, "fdd"),
    "access": (SEVERAL, "ofdma"),
    "ofdma_devices": (OFDMA, 2),
    "ofdma_power": (OFDMA, "shared"),
    "resource_blocks": (OFDMA, 10),
    "air_devices": (AIR, 2),
    "air_snr_db": (AIR, 5.0),
    "air_phase_error_deg": (AIR, 20.0),
    "allocation": (OFDMA, "min-max"),
    "noma_devices": (NOMA, 3),
    "pairing": (NOMA, "most-distinct"),
    "pairing_options": ({**NOMA, "pairing": "own_parts:pair"}, {"stride": 3}),
    "allocation_options": ({**OFDMA, "allocation": "own_parts:divide"}, {"least": 10}),
    "samples_per_slot": ({"compute_slots": None}, 4.0),
    "bits_per_slot": ({}, 100_000),
    "schedule": ({}, "sync"),
    "delay": (QUEUE, 0),
    "participation": ({"schedule": "sync"}, "random"),
    "selection": (QUEUE, "random"),
    "schedule_options": ({**QUEUE, "schedule": "own_parts:policy"}, {"delay": 1}),
    "participation_options": ({"schedule": "sync", "participation": "own_parts:pick"}, {"stride": 3}),
    "selection_options": ({**QUEUE, "selection": "own_parts:pick"}, {"stride": 3}),
    "choice_candidates": ({**LEARNED, "participation": "power-of-choice"}, 2),
    "norm_candidates": ({**LEARNED, **RADIO, "participation": "update-norm"}, 2),
    "oort_exploration": (OORT, 0.0),
    "oort_slots": (OORT, 4),
    "oort_penalty": (OORT, 0.0),
    "group_rule": ({}, "own_parts:resize"),
    "group_rule_options": ({"group_rule": "own_parts:resize"}, {"to": 2}),
    "stall_rounds": ({**LEARNED, "group_rule": "shrink-when-stalled"}, 1),
    "stall_factor": (STALLED, 0.9),
}
OWN_PARTS = """
import numpy as np
from slotwise.schedule import IntentionalDelay

class Quadratic:
    def __init__(self, rate, size):
        self.rate, self.size = rate, size
    def initial_model(self):
        return np.ones(self.size, np.float32)
    def local_update(self, model, start):
        return (self.rate * (model - start.device)).astype(np.float32)
    def evaluate(self, model):
        return float((model**2).sum()), 0.5
    def named_arrays(self, model):
        return {"w": model}

def task(config, *, rate: float = 0.5, size: int = 3):
    return Quadratic(rate, size)

def rule(model, contributions, *, shrink: float = 1.0):
    total = sum(sent.update.astype(np.float64) for sent in contributions)
    return (model - shrink * total / len(contributions)).astype(np.float32)

def step(weights, gradient, context, *, scale: float = 3.0):
    weights -= scale * context.learning_rate * gradient

def split(dataset, devices, generator, *, first: int = 0):
    return [np.arange(first + 8 * device, first + 8 * device + 8) for device in range(devices)]

def policy(seed, *, delay: int = 0):
    return IntentionalDelay(delay=delay)

def prune(update, draw, *, least: float = 0.0):
    return np.where(abs(update) < least, np.float32(0), update), 32 * len(update)

def norm(model, task, *, order: int = 2):
    return float((abs(model) ** order).sum() ** (1 / order))

def resize(decision, learning, *, to: int = 1):
    return to

def pick(waiting, round_number, last_sender, *, stride: int = 1):
    return max(waiting, key=lambda update: update.device * stride % 7)

def pair(group, waiting, *, stride: int = 1):
    return max(waiting, key=lambda update: update.device * stride % 7)

def divide(group, *, least: int = 20):
    blocks = [least] * len(group.devices)
    return [group.blocks - least * (len(blocks) - 1), *blocks[1:]]

class Link:
    planned_broadcast_slots = 1
    def __init__(self, devices, slots):
        self.planned_slots = (slots,) * devices
    def uplink(self, device, slot, attempt):
        return self.planned_slots[device - 1], False
    def broadcast(self, receivers, slot):
        return 1
    def snr_db(self, slot):
        return np.zeros(len(self.planned_slots))

def link(scenario, seed, *, slots: int = 1):
    return Link(scenario.devices, slots)
"""
FLEET: dict[str, tuple[dict[str, Any], Any]] = {
    "compute_distribution": ({"compute_slots": None}, "uniform:1:9"),
    "link_distribution": ({}, "uniform:1:4"),
    "device_compute_slots": ({"compute_slots": None}, (1, 2, 3, 4)),
    "compute_changes": ({}, [[20, 7]]),
    "device_link_slots": ({}, (1, 2, 1, 2)),
    "uplink_slots": ({}, 2),
    "jitter": ({}, 0.5),
    "uplink_loss": ({}, 0.3),
    "device_uplink_loss": ({}, (0.5, 0.0, 0.0, 0.0)),
    "retransmission": ({"uplink_loss": 0.5}, "erasure"),
    "absences": ({}, ((1, 5, 30),)),
    "mean_present": ({"mean_present": 9.0, "mean_away": 9.0}, 20.0),
    "mean_away": ({"mean_present": 9.0, "mean_away": 9.0}, 20.0),
    "window_period": (WINDOWS, 12),
    "window_length": (WINDOWS, 3),
    "window_stagger": (WINDOWS, 3),
    "window_offsets": (WINDOWS, (0, 2, 4, 6)),
    "windows": ({}, ((1, 0, 8), (1, 20, 60))),
    "window_file": ({}, Path("windows.csv")),
    "frame_slots": ({"frame_slots": 4}, 6),
    "frame_offset": ({"frame_slots": 6}, 2),
    "owned_slots": ({"frame_slots": 4}, ((0, 1), (1, 4), (2, 3), (3, 2))),
    "frame_file": ({"frame_slots": 4}, Path("frame.csv")),
    "battery_joules": (BATTERIES, 20.0),
    "battery_initial": (BATTERIES, 0.2),
    "computing_joules": (BATTERIES, 4.0),
    "sending_joules": (BATTERIES, 6.0),
    "harvest_joules": (BATTERIES, 1.0),
    "harvest_probability": (BATTERIES, 0.5),
    "device_battery_joules": (
        BATTERIES | {"battery_joules": None, "device_battery_joules": (50.0,) * 4},
        (50.0, 10.0, 10.0, 50.0),
    ),
    "device_computing_joules": (BATTERIES | {"computing_joules": None}, (2.0, 9.0, 2.0, 2.0)),
    "device_sending_joules": (BATTERIES | {"sending_joules": None}, (2.0, 9.0, 9.0, 2.0)),
    "device_harvest_joules": (BATTERIES | {"harvest_joules": None}, (1.0, 0.0, 0.0, 1.0)),
    "harvest_trace": (BATTERIES | {"harvest_joules": None}, (2.0,) * 60),
    "fleet_seed": ({"jitter": 0.5}, 3),
    "fleet_file": ({"compute_slots": None}, Path("fleet.csv")),
    "cycles_per_sample": (CPU, 2e6),
    "cpu_ghz": (CPU, 2.0),
    "cpu_slot_ms": (CPU, 2.0),
    "cpu_kappa": (BATTERIES | CPU | {"computing_joules": None}, 4e-24),
}
RADIOS: dict[str, tuple[dict[str, Any], Any]] = {
    "radio_link": ({}, "rate-adaptive"),
    "radio_link_options": ({"radio_link": "own_parts:link"}, {"slots": 3}),
    "radio_placement": (RADIO, "ring"),
    "radio_radius_m": (RADIO, 900.0),
    "radio_nearest_m": (RADIO, 400.0),
    "radio_distances_m": (RADIO, (50.0, 200.0, 400.0, 500.0)),
    "radio_placement_file": (RADIO, Path("placement.csv")),
    "radio_path_loss": (RADIO, "uma-nlos"),
    "radio_exponent": (LOG_DISTANCE, 3.3),
    "radio_reference_db": (LOG_DISTANCE, 50.0),
    "radio_carrier_ghz": (RADIO, 20.0),
    "radio_shadowing_db": (RADIO, 8.0),
    "radio_fading": (RADIO, "none"),
    "radio_rician_k_db": ({**RADIO, "radio_fading": "rician"}, -10.0),
    "radio_nakagami_m": ({**RADIO, "radio_fading": "nakagami"}, 0.5),
    "radio_coherence_slots": (RADIO, 10),
    "radio_bandwidth_hz": (RADIO, 2e5),
    "radio_band": ({**RADIO, "sub_channels": 2}, "divided"),
    "radio_noise_dbm_hz": (RADIO, -160.0),
    "radio_noise_figure_db": (RADIO, 20.0),
    "radio_device_noise_figure_db": (RADIO, 40.0),
    "radio_power_dbm": (RADIO, 10.0),
    "radio_server_power_dbm": (RADIO, 15.0),
    "radio_antenna_gain_db": (RADIO, -15.0),
    "radio_rate": (RADIO, "cqi"),
    "radio_schemes": (RADIO, ((-10.0, 0.5), (10.0, 1.0))),
    "radio_schemes_file": (RADIO, Path("schemes.csv")),
    "radio_gap_db": (RADIO, 15.0),
    "radio_slot_ms": (RADIO, 30.0),
    "radio_bits": (RADIO, 1_000_000),
    "radio_broadcast_bits": (RADIO, 5_000_000),
    "radio_threshold_db": (FIXED, -3.0),
    "radio_give_up_slots": ({**RADIO, "radio_bits": 2_000_000, "radio_coherence_slots": 10}, 15),
    "radio_quantile": ({**RADIO, "radio_bits": 800_000}, 0.99),
    "radio_trace": (RADIO, Path("trace.csv")),
    "radio_trace_end": ({**RADIO, "radio_trace": Path("trace.csv"), "deadline": 90}, "repeat"),
    "radio_trace_sha256": (RADIO, FOUND),
    "radio_seed": (RADIO, 3),
}
LEARNING: dict[str, tuple[dict[str, Any], Any]] = {
    "data": ({**RADIO, "network": "cnn"}, "cifar10"),
    "hub_subset": (HUB, "plain"),
    "label_column": (HUB, "digit"),
    "input_columns": (HUB, "image"),
    "owner_column": (HUB, "writer"),
    "test_split": (HUB, "validation"),
    "image_size": (HUB, 28),
    "torchvision_split": (TORCHVISION, "letters"),
    "partition": ({}, "iid"),
    "partition_options": ({"samples_per_device": None, "partition": "own_parts:split"}, {"first": 7}),
    "samples_per_device": ({}, 9),
    "sample_skew": ({}, 0.5),
    "device_samples": ({"samples_per_device": None}, (4, 8, 8, 9)),
    "size_power": ({}, 1.0),
    "size_sigma": ({}, 1.0),
    "shards_per_device": ({"samples_per_device": None, "partition": "shards"}, 3),
    "min_samples": (PER_CLASS, 600),
    "self_balancing": (PER_CLASS, "on"),
    "labels_per_device": ({"partition": "k-labels"}, 3),
    "concentration": ({"partition": "dirichlet"}, 5.0),
    "input_scale": ({}, "unit"),
    "data_seed": ({}, 5),
    "data_folder": ({"samples_per_device": None}, Path("data")),
    "folder_shape": ({}, FOUND),
    "folder_classes": ({}, FOUND),
    "task": ({"network": None}, "examples.own_task.logistic:make_task"),
    "task_options": ({"network": None, "task": "own_parts:task"}, {"rate": 0.1}),
    "network": ({}, "mlp"),
    "channels": ({**RADIO, "network": "cnn"}, (1,)),
    "hidden": ({"network": "mlp", "hidden": (2,)}, (3,)),
    "backend": ({}, "torch"),
    "model_seed": ({}, 4),
    "flower_app": (FLOWER | {"flower_app": None}, FLOWER["flower_app"]),
    "flower_config": (FLOWER, "learning-rate=0.3"),
    "flower_evaluate": (FLOWER, "option_contexts:flower_loss"),
    "local_steps": ({}, 3),
    "batch_sampling": ({"local_steps": 3}, "without-replacement"),
    "local_epochs": ({"local_steps": None}, 2),
    "last_batch": ({"local_steps": None, "local_epochs": 1, "batch_size": 5}, "dropped"),
    "batch_size": ({}, 5),
    "batch_size_changes": ({}, [[10, 3]]),
    "learning_rate": ({}, 0.1),
    "update": ({}, "mean"),
    "optimizer": ({}, "adam"),
    "momentum": ({}, 0.5),
    "beta1": ({"optimizer": "adam"}, 0.5),
    "beta2": ({"optimizer": "adam"}, 0.5),
    "epsilon": ({"optimizer": "adam"}, 0.1),
    "weight_decay": ({}, 0.1),
    "gradient_clip": ({}, 0.01),
    "proximal": ({}, 1.0),
    "rate_decay": ({}, "inverse"),
    "rate_unit": ({"rate_decay": "inverse", "rate_period": 2}, "slot"),
    "rate_period": ({"rate_decay": "inverse"}, 2),
    "local_step": ({}, "own_parts:step"),
    "local_step_options": ({"local_step": "own_parts:step"}, {"scale": 2.0}),
    "seed": ({}, 1),
    "aggregation": ({}, "fedadam"),
    "aggregation_options": ({"aggregation": "own_parts:rule"}, {"shrink": 0.5}),
    "discount": (FEDASYNC, "constant"),
    "discount_power": (FEDASYNC, 3.0),
    "discount_slope": ({**FEDASYNC, "discount": "hinge", "discount_grace": 0.0}, 1.0),
    "discount_grace": ({**FEDASYNC, "discount": "hinge"}, 0.0),
    "mixing": (FEDASYNC, 0.3),
    "server_rate": ({"aggregation": "fedavgm"}, 0.5),
    "delay_threshold": ({"schedule": "async", "aggregation": "delay-adaptive"}, 0.1),
    "compensation": ({"schedule": "async", "aggregation": "delay-compensated"}, 9.0),
    "dynamic_penalty": ({"aggregation": "feddyn"}, 5.0),
    "memory_age": ({"schedule": "async", "aggregation": "ace"}, 0),
    "server_momentum": ({"aggregation": "fedavgm"}, 0.2),
    "adaptive_rate": ({"aggregation": "fedadam"}, 0.1),
    "server_beta1": ({"aggregation": "fedadam"}, 0.1),
    "server_beta2": ({"aggregation": "fedyogi"}, 0.1),
    "server_epsilon": ({"aggregation": "fedadagrad"}, 0.1),
    "trim": ({**EIGHT, "aggregation": "trimmed-mean"}, 0.4),
    "byzantine": ({**EIGHT, "aggregation": "multi-krum"}, 1),
    "krum_selected": ({**EIGHT, "aggregation": "multi-krum"}, 1),
    "largest_norm": ({"aggregation": "norm-clipping"}, 0.01),
    "attack": ({}, "sign-flip"),
    "attack_share": ({"attack": "noise", "attack_share": 0.25}, 0.5),
    "attack_scale": ({"attack": "noise"}, 2.0),
    "bits": ({}, 4),
    "compressor": ({}, "sign"),
    "compressor_options": ({"compressor": "own_parts:prune"}, {"least": 0.01}),
    "kept_share": ({"compressor": "top-k"}, 0.5),
    "error_feedback": ({"compressor": "random-k", "kept_share": 0.1}, "on"),
    "evaluate_every": ({}, 7),
    "stop_at": ({}, "loss=2.3"),
    "own_metric": ({}, "own_parts:norm"),
    "own_metric_options": ({"own_metric": "own_parts:norm"}, {"order": 1}),
    "slot_ms": ({}, 5.0),
}
CONTEXTS = CHANNEL | FLEET | RADIOS | LEARNING


def flower_loss(round_number: int, arrays: Any) -> Any:
    """Evaluate any model of a Flower app alike."""
    from flwr.app import MetricRecord

    return MetricRecord({"loss": 1.25})


def options_in(context: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the options of a context, those that are not None."""
    return {name: value for name, value in {**TINY, **context, **more}.items() if value is not None}


def write_files(folder: Path) -> None:
    """Write the files that contexts name."""
    (folder / "own_parts.py").write_text(OWN_PARTS)
    (folder / "windows.csv").write_text("device,opens,closes\n1,0,8\n1,20,60\n3,4,60\n")
    (folder / "frame.csv").write_text("slot,device\n0,4\n1,1\n2,3\n3,2\n")
    (folder / "fleet.csv").write_text("device,compute_slots\n1,2\n2,9\n3,4\n4,1\n")
    (folder / "placement.csv").write_text("device,distance_m\n1,50\n2,200\n3,400\n4,500\n")
    (folder / "schemes.csv").write_text("snr_db,efficiency\n-10,0.5\n10,1\n")
    rows = [f"{device},{slot},{5 * device - slot % 7}" for slot in range(60) for device in range(1, 5)]
    (folder / "trace.csv").write_text("\n".join(["device,slot,snr_db", *rows]) + "\n")
    draw = np.random.default_rng(0)
    (folder / "data").mkdir()
    for name in ("device-1", "device-2", "device-3", "device-4", "test"):
        images = draw.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8)
        np.savez(folder / "data" / f"{name}.npz", x=images, y=np.arange(6))


@cache
def dataset() -> Dataset:
    """Return images of noise in the shape of MNIST: they are loaded at once, and enough for a tiny run."""
    draw = np.random.default_rng(0)
    labels = {"train": np.arange(3000) % 10, "test": np.arange(20) % 10}
    arrays: dict[str, Any] = {}
    for part, targets in labels.items():
        arrays[f"{part}_inputs"] = draw.integers(0, 256, (len(targets), 1, 28, 28), dtype=np.uint8)
        arrays[f"{part}_targets"] = targets.astype(np.uint8)
    return Dataset("noise", **arrays, classes=10, offset=(0.5,), scale=(0.5,))


@dataclass(frozen=True)
class Outcome:
    """A configuration, whose results are computed when they are compared."""

    config: RunConfig

    def timeline(self) -> Timeline:
        """Return the timeline; one that depends on what is learned is that of a training."""
        if not self.config.decides_by_learning:
            return self.config.simulate()
        episode = episode_of(self.config)
        train(episode, build_task(self.config, dataset()), agent=PolicyAgent(self.config))
        return episode.timeline

    def schedule(self) -> tuple[Any, ...]:
        """Return uplinks, broadcasts and costs."""
        timeline = self.timeline()
        names = ("round", "device", "version", "start", "end", "lost", "broadcast_start", "broadcast_end")
        columns = tuple(getattr(timeline, name).tolist() for name in (*names, "receiver"))
        costs = Costs.of(timeline, powers_of_run(POWERS, self.config))
        return *columns, costs.as_dict()

    def history(self) -> tuple[Any, ...]:
        """Return the evaluations of the training; one that diverges ends before that."""
        config = self.config
        built_in = config.dataset.data_folder is None and not config.model.is_own
        task = build_task(config, dataset() if built_in else None)
        how = {"evaluate_every": config.slots_between_evaluations, "stop_at": config.end.target}
        try:
            radio = config.uplink_radio(task.update_bits)
            found = train(self.timeline(), task, aggregation=config.rule, radio=radio, **how)
        except Diverged as error:
            found = error.history
        return found.points
