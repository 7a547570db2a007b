from slotwise.paper.table1 import TableOne
from slotwise.paper.worked_timeline import WorkedTimeline


def test_the_exact_schedule_gives_the_papers_table() -> None:
    mnist, cifar10 = (row.cells() for row in TableOne().rows())
    assert [cell.ours for cell in mnist] == [24976, 8326, 4541, 1922, 980, 332]
    assert [cell.ours for cell in cifar10] == [49999, 33333, 16667, 9091, 4001]
    assert all(cell.equal for cell in (*mnist, *cifar10))


def test_the_worked_example_has_the_papers_slots_and_ages() -> None:
    without, with_delay = WorkedTimeline().timelines()
    assert without.device[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert without.start[:6].tolist() == [2, 3, 5, 6, 8, 9]
    assert without.version[:6].tolist() == [0] * 6
    assert with_delay.version[:6].tolist() == [0, 0, 0, 0, 1, 1]
    assert with_delay.delay == 1
