from slotwise.live.server.timings import LEAST_MULTIPLE, MULTIPLE, UNKNOWN_MULTIPLE, TrainingTimes


def test_the_limit_is_a_multiple_of_what_trainings_took_and_at_least_of_the_timeout():
    times = TrainingTimes()
    assert times.limit(1, 60.0) == UNKNOWN_MULTIPLE * 60.0
    for began, ended in ((0.0, 10.0), (20.0, 32.0), (40.0, 1000.0)):
        times.begin(1, began)
        times.end(1, ended)
    assert times.limit(1, 20.0) == MULTIPLE * 12.0
    assert times.limit(1, 600.0) == LEAST_MULTIPLE * 600.0
    assert times.limit(2, 60.0) == UNKNOWN_MULTIPLE * 60.0


def test_a_training_is_counted_from_its_assignment_or_from_a_reconnect():
    times = TrainingTimes()
    times.begin(1, 5.0)
    assert times.waited(1, 8.0) == 3.0
    times.restart(10.0)
    assert times.waited(1, 12.0) == 2.0
    assert times.waited(2, 12.0) == 0.0  # assigned before this server was started
    assert times.waited(2, 15.0) == 3.0


def test_an_end_without_a_beginning_is_ignored():
    times = TrainingTimes()
    times.end(1, 5.0)
    assert times.limit(1, 60.0) == UNKNOWN_MULTIPLE * 60.0
