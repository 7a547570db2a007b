"""The residual network."""

import pytest

torch = pytest.importorskip("torch")
resnet8 = pytest.importorskip("slotwise.learning.torch_networks").resnet8


@pytest.mark.parametrize(("normalisation", "has_statistics"), [("group", False), ("batch", True)])
def test_resnet8_has_the_parameters_of_its_definition(normalisation: str, has_statistics: bool) -> None:
    module = resnet8(normalisation)
    convolutions = 9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 16 * 32 + 32 * 64
    norms = 2 * (3 * 16 + 3 * 32 + 3 * 64)
    assert sum(p.numel() for p in module.parameters()) == convolutions + norms + 64 * 10 + 10
    floating = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    assert bool(floating) == has_statistics
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert resnet8(normalisation, channels=1, classes=4)(torch.zeros(2, 1, 28, 28)).shape == (2, 4)
