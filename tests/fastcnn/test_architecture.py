import subprocess
import sys

import numpy as np
import pytest

from slotwise.fastcnn.architecture import Architecture

MNIST = Architecture((1, 28, 28), ((10, 5), (20, 5)), (50,), 10)


def test_parameters_are_in_the_order_of_pytorch_within_their_bounds() -> None:
    assert MNIST.parameters == 21_840
    assert MNIST.parameter_shapes == (
        (10, 1, 5, 5), (10,), (20, 10, 5, 5), (20,), (50, 320), (50,), (10, 50), (10,),
    )  # fmt: skip
    assert Architecture((3, 8, 9), ((4, 2),), (), 2).feature_shapes == ((3, 8, 9), (4, 3, 4))
    values = MNIST.initial_parameters(np.random.default_rng(0))
    first = values[: 10 * 25 + 10]
    assert values.dtype == np.float32
    assert values.shape == (21_840,)
    assert 0.19 < np.abs(first).max() <= 0.2
    assert np.abs(values[260 : 260 + 5_020]).max() <= 1 / np.sqrt(250)
    one, same, other = (MNIST.initial_parameters(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_arithmetic_is_that_of_a_textbook_or_less() -> None:
    forward = 24 * 24 * 10 * 25 + 8 * 8 * 20 * 250 + 320 * 50 + 50 * 10
    assert MNIST.dense_multiply_adds == 3 * forward - 24 * 24 * 10 * 25
    convolutions, dense = (24 * 24 * 10 * 25, 8 * 8 * 20 * 250), 320 * 50 + 50 * 10
    backward = convolutions[0] // 4 + 2 * convolutions[1] // 4
    assert MNIST.needed_multiply_adds == sum(convolutions) + backward + 3 * dense


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_shape": (1, 28, 0)}, "input_shape"),
        ({"convolutions": ((10, 0),)}, "convolution"),
        ({"convolutions": ((10, 5), (20, 5), (30, 5))}, "convolution 3 does not fit"),
        ({"hidden": (0,)}, "hidden"),
        ({"classes": 1}, "classes"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_reason(changed: dict[str, object], message: str) -> None:
    given = {"input_shape": (1, 28, 28), "convolutions": ((10, 5),), "hidden": (5,), "classes": 10} | changed
    with pytest.raises(ValueError, match=message):
        Architecture(**given)  # type: ignore[arg-type]


def test_describing_a_network_does_not_load_the_compiler() -> None:
    program = "import slotwise.fastcnn.architecture, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
