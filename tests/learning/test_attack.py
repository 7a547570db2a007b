import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError
from slotwise.learning import Evaluation, TrainingStart
from slotwise.learning.attack import ATTACK, Attacked, NoAttack, Noise, SignFlip
from slotwise.options import choose

DEVICES = 20


class Ones:
    """Every update is (1, 2, 2)."""

    def initial_model(self) -> Vector:
        return np.zeros(3, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return np.array([1, 2, 2], dtype=np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(0.0, 0.0)

    def sample_count(self, device: int) -> int:
        return 10 * device


def attacked(seed: int = 0, **options: object) -> Attacked:
    return Attacked(Ones(), choose(ATTACK, options), DEVICES, seed)


def sent(task: Attacked, device: int, training: int = 0) -> Vector:
    return task.local_update(task.initial_model(), TrainingStart(device, training))


def test_the_share_of_the_devices_attacks_and_the_seed_decides_which() -> None:
    config = SignFlip(share=0.25)
    drawn = [config.attackers(DEVICES, seed) for seed in range(20)]
    assert all(len(set(each)) == 5 and min(each) >= 1 and max(each) <= DEVICES for each in drawn)
    assert len(set(drawn)) > 15
    assert config.attackers(DEVICES, 3) == drawn[3]
    assert set.union(*map(set, drawn)) == set(range(1, DEVICES + 1))


def test_a_flipped_update_is_scaled_and_those_of_others_are_as_they_were() -> None:
    task = attacked(attack="sign-flip", attack_scale=10)
    for device in range(1, DEVICES + 1):
        expected = [-10, -20, -20] if device in task.attackers else [1, 2, 2]
        assert sent(task, device).tolist() == expected
        assert sent(task, device).dtype == np.float32


def test_noise_is_as_large_as_the_scale_says_and_new_in_every_training() -> None:
    task = attacked(attack="noise", attack_scale=4)
    device = min(task.attackers)
    noises = [sent(task, device, training) for training in range(2000)]
    root_mean_square = float(np.sqrt(np.mean(np.square(noises))))
    assert root_mean_square == pytest.approx(4 * np.sqrt(3), rel=0.05)  # that of (1, 2, 2) is sqrt(3)
    assert np.abs(np.mean(noises, axis=0)).max() < 1
    assert len({noise.tobytes() for noise in noises}) == 2000
    assert sent(task, device, 7).tobytes() == noises[7].tobytes()


def test_everything_else_passes_through_and_without_an_attack_nobody_attacks() -> None:
    assert attacked(attack="noise").sample_count(3) == 30
    assert NoAttack().attackers(DEVICES, 0) == ()
    with pytest.raises(InputError) as caught:
        Noise(share=0.01).attackers(DEVICES, 0)
    assert caught.value.parameter == "attack_share"
