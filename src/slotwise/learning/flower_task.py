"""flower_task: a Flower project or ClientApp as a task. Flower is imported only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app import ArrayRecord
    from flwr.clientapp import ClientApp

    from slotwise.learning.flower.app_task import EvaluateFunction, FlowerTask


def flower_task(
    app: str | Path | ClientApp,
    *,
    devices: int,
    seed: int = 0,
    model_seed: int | None = None,
    run_config: str | Mapping[str, Any] | None = None,
    arrays: ArrayRecord | None = None,
    evaluate: str | EvaluateFunction | None = None,
) -> FlowerTask:
    """Return a task that trains an unmodified Flower ClientApp. Needs the extra ``slotwise[flower]``.

    Args:
        app: Folder of a Flower project, whose ServerApp gives the first model and the configuration; or a
            ClientApp.
        devices: Number of devices, which the app sees as partitions.
        seed: Seed of the global random generators in the app.
        model_seed: Seed of the first model, for a ServerApp that draws it. Default: ``seed``.
        run_config: Values of the app's configuration: "key=value key=value", or a mapping.
        arrays: First model; needed for a ClientApp object, and instead of the ServerApp's in a project.
        evaluate: Server-side evaluation, ``evaluate(server_round, arrays)``, instead of the app's own: a
            function, or "module:function", which is also searched in the project.

    Raises:
        UserError: the project is incomplete, or one of its apps fails.
    """
    from slotwise.learning.flower.app_task import make_task  # noqa: PLC0415

    return make_task(
        app,
        devices=devices,
        seed=seed,
        model_seed=model_seed,
        run_config=run_config,
        arrays=arrays,
        evaluate=evaluate,
    )
