"""replay: computes the models of a live run again, from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slotwise.aggregation import Contribution, RuleState, UplinkRadio, Vector, next_model
from slotwise.aggregation.norm_bound import ClipNorm, NormBounded
from slotwise.base.errors import UserError
from slotwise.learning import Task, TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import update_of
from slotwise.live.server.aggregator import Rollback
from slotwise.live.server.server_config import clip_key
from slotwise.options import loaded
from slotwise.runs import SavedRun
from slotwise.runs.execution import build_task
from slotwise.schedule import Timeline


def replay(path: Path | str, task: Task | None = None) -> Vector:
    """Return the last model of a live run, computed along its timeline.json as the server did.

    It is the model of the run to the bit if all devices sent what ``task`` (default: that of the run) gives.
    Bounds on norms and roll-backs are repeated.
    """
    run = SavedRun.read(path)
    if not run.is_live:
        raise UserError(f"{path}: a simulated run; its model does not have to be replayed")
    if run.measured is None:
        raise UserError(f"{path}: no round is complete, so there is nothing to replay")
    live_file = run.path / "live.json"
    try:
        live = json.loads(live_file.read_text(encoding="utf-8"))
        rollbacks = {entry[0]: Rollback(*entry) for entry in live.get("rollbacks", [])}
    except (OSError, ValueError, AttributeError, TypeError):
        # The server writes it after timeline.json, and may have been killed in between.
        raise UserError(f"{live_file}: missing or damaged; resume the run, which writes it again") from None
    checked = CheckedTask.of(build_task(run.config) if task is None else task)
    clip_norm: ClipNorm = run.description["live_options"]["clip_norm"] or "off"
    rule = NormBounded(loaded(run.config.rule), clip_norm, clip_key(run.description))
    return _last_model(run.measured, checked, rule, rollbacks, run.config.uplink_radio(checked.update_bits))


def _last_model(
    timeline: Timeline,
    checked: CheckedTask,
    rule: NormBounded,
    rollbacks: Mapping[int, Rollback],
    radio: UplinkRadio,
) -> Vector:
    models: dict[int, Vector] = {0: checked.initial_model()}
    rule_state: RuleState = {}
    # Models are dropped after their last use: all models of a long run would not fit into memory.
    last_use = np.arange(timeline.rounds + 1)  # round in which each model is used for the last time
    np.maximum.at(last_use, timeline.version, timeline.round)
    # A roll-back starts from an older model, which has to be kept until then.
    for rollback in rollbacks.values():
        last_use[rollback.good] = max(last_use[rollback.good], rollback.version - 1)
    for k in range(timeline.rounds):
        contributions = []
        rows = timeline.uplinks(k)
        columns = (timeline.device, timeline.version, timeline.training, timeline.start, timeline.end)
        for device, version, training, first, end in zip(*(c[rows].tolist() for c in columns), strict=True):
            slot = int(timeline.broadcast_end[version - 1]) if version else 0
            start = TrainingStart(device, training, version, slot)
            update = update_of(checked.local_update(models[version], start))
            samples = checked.sample_count(device)
            start_model, devices = models[version], timeline.scenario.devices
            sent = Contribution(update, k - version, start_model, device, k, samples, devices=devices)
            contributions.append(sent._replace(uplink=radio.reception(device, first, end)))
        base = models[k]
        if k + 1 in rollbacks:
            base, contributions, rule_state = rollbacks[k + 1].begin(models, contributions, rule_state)
        models[k + 1], rule_state = next_model(rule, base, contributions, rule_state)
        models = {version: model for version, model in models.items() if last_use[version] > k}
    return models[timeline.rounds]
