"""The bound on what a device pushes for in all its turns."""

import numpy as np
import pytest

from slotwise.aggregation import Contribution, mean, next_model
from slotwise.aggregation.device_history import CELLS, MEANS, PEERS, TURNS, DeviceHistories, sketch
from slotwise.aggregation.norm_bound import NormBounded

SIZE = 4000
MODEL = np.zeros(SIZE, dtype=np.float32)
COMMON = np.random.default_rng(1).standard_normal(SIZE)
COMMON /= np.linalg.norm(COMMON)
TARGET = np.roll(COMMON, SIZE // 2)  # as good as orthogonal
DEVICES = range(1, 11)


def noise(device, turn):
    drawn = np.random.default_rng([device, turn]).standard_normal(SIZE)
    return drawn / np.linalg.norm(drawn)


def alike(device, turn):
    """An honest update of length 1 or so: a third of it is what all devices have in common."""
    return 0.3 * COMMON + 0.9 * noise(device, turn)


def unlike(device, turn):
    """An honest update of a device whose data have nothing in common with those of others."""
    return (1 + device % 2) * (0.6 * noise(device, 999) + 0.6 * noise(device, turn))


def played(updates, turns, *, devices=DEVICES, key=5):
    """Let devices send in turn, S = 1; return what each has changed along a unit vector, and the state."""
    state, rule = {}, NormBounded(mean, key=key)
    changes = {device: np.zeros(SIZE) for device in devices}
    for turn in range(turns):
        for device in devices:
            sent = Contribution(updates(device, turn).astype(np.float32), 0, MODEL, device)
            model, state = next_model(rule, MODEL, [sent], state)
            if turn >= turns // 2:
                changes[device] -= model
    return {device: change / (turns - turns // 2) for device, change in changes.items()}, state


@pytest.mark.parametrize("honest", [alike, unlike])
def test_honest_updates_are_applied_as_they_are(honest):
    changes, _ = played(honest, 20)
    for device, change in changes.items():
        expected = np.mean([honest(device, turn) for turn in range(10, 20)], axis=0)
        assert np.allclose(change, expected, atol=1e-6)


def test_devices_that_collude_below_the_norm_bound_push_no_harder_than_honest_ones():
    attackers = 2, 5
    changes, _ = played(lambda device, turn: 1.9 * TARGET if device in attackers else alike(device, turn), 20)
    for device in attackers:
        assert changes[device] @ TARGET < 0.3  # of 1.9
    for device in set(DEVICES) - set(attackers):
        assert changes[device] @ COMMON == pytest.approx(0.3, abs=0.05)


def test_a_device_that_points_against_those_that_agree_does_not_count():
    flipped = played(lambda device, turn: (-1) ** (device == 1) * alike(device, turn), 20, devices=(1, 2, 3))[
        0
    ]
    assert not flipped[1].any()
    assert flipped[2] @ COMMON == pytest.approx(0.3, abs=0.05)
    # Nobody agrees: who is right cannot be known.
    free = played(lambda device, turn: (-1) ** (device == 1) * unlike(device, turn), 20)[0]
    assert np.linalg.norm(free[1]) > 1


def differing(device, turn):
    """Seven of ten devices have something in common, the others a little of the opposite; all differ."""
    common = 0.35 if device <= 7 else -0.2
    return common * COMMON + 0.8 * noise(device, 999) + 0.4 * noise(device, turn)


def dropped(updates, turns, key):
    """How many updates do not count at all."""
    state, zeros = {}, 0
    for turn in range(turns):
        for device in DEVICES:
            histories = DeviceHistories(state, key)
            zeros += histories.factor(device, updates(device, turn).astype(np.float32), 1.0) == 0
            state = histories.state
    return zeros


@pytest.mark.parametrize("honest", [differing, unlike])
def test_devices_whose_data_differ_count_with_every_key(honest):
    assert [dropped(honest, 8, key) for key in range(20)] == [0] * 20


def test_a_device_that_points_against_all_others_is_found_with_every_key():
    def one_flipped(device, turn):
        return (-1) ** (device == 4) * alike(device, turn)

    counts = [dropped(one_flipped, 14, key) for key in range(10)]
    assert min(counts) >= 5  # of its last turns, when its mean is known well
    assert max(counts) <= 12  # none of another device


def test_zeros_of_one_device_do_not_silence_the_others():
    changes, _ = played(lambda device, turn: (device > 1) * alike(device, turn), 20, devices=(1, 2, 3))
    assert changes[2] @ COMMON == pytest.approx(0.3, abs=0.05)


def test_a_device_that_comes_late_counts_from_its_first_update():
    def update(device, turn):
        return 0 * COMMON if device == 10 and turn < 19 else alike(device, turn)

    state, rule = {}, NormBounded(mean)
    for turn in range(20):
        for device in DEVICES:
            if device == 10 and turn < 19:
                continue
            sent = Contribution(update(device, turn).astype(np.float32), 0, MODEL, device)
            model, state = next_model(rule, MODEL, [sent], state)
    assert np.allclose(model, -update(10, 19), atol=1e-6)


def test_devices_that_are_gone_are_no_peers():
    """Nine devices that pulled elsewhere, and left, must not outvote the three that are there."""
    state, rule = {}, NormBounded(mean)
    changes = np.zeros(SIZE)
    for turn in range(40):
        for device in DEVICES if turn < 10 else (1, 2, 3):
            sign = -1 if turn < 10 else 1
            sent = Contribution((sign * alike(device, turn)).astype(np.float32), 0, MODEL, device)
            model, state = next_model(rule, MODEL, [sent], state)
            changes -= model * (turn >= 10 + PEERS // 2)
    assert changes @ COMMON / (3 * (30 - PEERS // 2)) == pytest.approx(0.3, abs=0.05)


def test_the_state_has_a_fixed_size_for_each_device():
    _, early = played(alike, 1)
    _, late = played(alike, 30)
    assert early[MEANS].shape == late[MEANS].shape == (10, CELLS)
    assert early[TURNS].shape == late[TURNS].shape == (10, 3)
    assert late[MEANS].dtype == np.float32


def test_sketches_keep_lengths_and_angles_and_depend_on_the_key():
    one, other = sketch(COMMON, 1), sketch(COMMON, 2)
    assert np.linalg.norm(one) == pytest.approx(1, abs=0.2)
    assert abs(one @ sketch(TARGET, 1)) < 0.2
    assert not np.allclose(one, other)
    # What hides from one key does not hide from another.
    hidden = np.zeros(SIZE)
    cells = [np.flatnonzero(sketch(np.eye(1, SIZE, n).ravel(), 1))[0] for n in range(50)]
    pair = next((i, j) for i in range(50) for j in range(i) if cells[i] == cells[j])
    signs = [sketch(np.eye(1, SIZE, n).ravel(), 1)[cells[n]] for n in pair]
    hidden[list(pair)] = signs[0], -signs[1]
    assert not sketch(hidden, 1).any()
    assert sketch(hidden, 2).any()


def test_an_update_that_is_not_finite_is_forgotten():
    _, state = played(alike, 3)
    bad = np.full(SIZE, np.nan, dtype=np.float32)
    _, after = next_model(NormBounded(mean, key=5), MODEL, [Contribution(bad, 0, MODEL, 1)], state)
    assert np.array_equal(after[MEANS], state[MEANS])
