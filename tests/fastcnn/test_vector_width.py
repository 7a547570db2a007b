"""Results do not depend on how wide the vectors of the processor are."""

import os
import subprocess
import sys

import pytest

AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+popcnt,+movbe,+sse4.2,+cx16",
}
SCRIPT = """
import hashlib
import numpy as np
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import FastCnn

draw = np.random.default_rng(1)
images = draw.integers(0, 256, (90, 1, 20, 20), np.uint8)
images[images < 128] = 0
labels, batches = draw.integers(0, 10, 90), draw.integers(0, 90, (1, 4, 70))
for convolutions in ((), ((5, 3), (4, 2)), ((16, 3), (20, 2)), ((16, 5), (36, 5)), ((32, 5), (64, 5))):
    network = Architecture((1, 20, 20), convolutions, (200, 40), 10)
    fast = FastCnn(network, offset=(0.1,), scale=(0.3,))
    model = network.initial_parameters(draw)
    trained = fast.train_each(model, images, labels, batches, [0.1])[0]
    print(hashlib.sha256(trained.tobytes()).hexdigest(), fast.evaluate(trained, images, labels))
"""


@pytest.mark.slow
def test_bits_are_the_same_without_avx512() -> None:
    def result(**settings: str) -> str:
        command, given = [sys.executable, "-c", SCRIPT], {**os.environ, **settings}
        return subprocess.run(command, env=given, check=True, capture_output=True, text=True).stdout

    assert result() == result(**AVX2)
