"""The tables of the page about averaged models are those of the schedules."""

from doc_pages import ROOT

from slotwise.runs import RunConfig
from slotwise.schedule import Schedule

PAGE = (ROOT / "docs/model-average.md").read_text(encoding="utf-8")
SIZES = (1, 5, 10, 25, 50)


def test_rounds_per_chain_and_synchronous_rounds_are_those_of_the_schedules() -> None:
    def rounds(schedule: Schedule, size: int) -> float:
        timeline = RunConfig.from_options({"schedule": schedule, "group_size": size}).simulate()
        return timeline.rounds / (timeline.max_staleness() + 1)

    for title, schedule in (("idfl, per chain", "idfl"), ("synchronous FL", "sync")):
        cells = " | ".join(str(round(rounds(schedule, size))) for size in SIZES)  # type: ignore[arg-type]
        assert f"| {title} | {cells} |" in PAGE
    assert all(rounds("idfl", size) <= rounds("sync", size) for size in SIZES)
