"""Which models are bad, and whose updates are suspected."""

from slotwise.aggregation.norm_bound import RoundNorms
from slotwise.live.server.aggregator import ModelHealth, Rollback

EVERYONE = {1, 2, 3, 4, 5}


def test_a_model_is_bad_if_most_devices_and_more_than_one_cannot_train_on_it():
    health = ModelHealth()
    health.note_finite(1, 7)
    assert health.good == 0
    health.note_finite(2, 5)
    assert (health.good, health.vouched()) == (5, [7, 5])
    health = ModelHealth()
    for device, version in ((2, 6), (3, 4)):
        health.note_not_finite(device, version)
        assert health.bad_version(EVERYONE) is None
    health.note_not_finite(3, 9)
    health.note_not_finite(4, 8)
    assert health.bad_version(EVERYONE) == 4
    assert health.bad_version({*EVERYONE, 6}) is None
    health.note_finite(4, 8)
    assert health.bad_version(EVERYONE) is None
    health = ModelHealth()
    health.note_not_finite(1, 3)
    assert health.bad_version({1}) is None


def test_the_longest_updates_are_suspected_and_usual_ones_are_not():
    health = ModelHealth()
    clipped = health.note_norms(3, [1, 2, 3], RoundNorms([1.0, 4.0, 1e20], [3.0] * 3, 1.0))
    assert clipped == {2: (4.0, 3.0), 3: (1e20, 3.0)}
    assert health.suspects(4) == {3: 1e20}
    assert health.suspects(3) == {}
    assert (health.norms[2].clipped, health.norms[1].clipped, health.norms[3].largest) == (1, 0, 1e20)


def test_a_rollback_clears_what_was_known_of_later_models():
    health = ModelHealth()
    health.note_finite(1, 9)
    health.note_finite(2, 5)
    health.note_finite(3, 5)
    health.note_not_finite(4, 9)
    health.roll_back(Rollback(11, 5, 8), explained=False)
    assert (health.good, health.not_finite, health.unexplained) == (5, {}, 1)
    assert [health.is_void(version) for version in (5, 6, 10, 11)] == [False, True, True, False]
    assert ModelHealth(health.saved()).saved() == health.saved()
