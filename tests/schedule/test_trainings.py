from slotwise import Scenario, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import trainings
from slotwise.schedule.trainings import NEVER, NONE


def test_trainings_say_what_became_of_each_model() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2)
    fleet = Fleet(compute_slots=(2, 3), link_slots=(1, 1), absences=(Absence(2, 6, 9),))
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    rows = zip(*(column.tolist() for column in trainings(timeline)), strict=True)
    assert list(rows) == [
        (1, 0, 0, 0, 2, NEVER, 0),
        (1, 1, 3, 4, 6, NEVER, 2),
        (1, 3, 7, 8, 10, NEVER, NONE),
        (2, 0, 0, 0, 3, 6, 1),
        (2, 2, 5, 6, 9, 6, NONE),
    ]
