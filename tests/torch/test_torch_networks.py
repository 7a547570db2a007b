"""Built-in networks that PyTorch computes."""

import pytest

from slotwise.base.errors import InputError
from slotwise.learning import TrainingStart
from slotwise.learning.networks import Resnet8
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

torch = pytest.importorskip("torch")
torch_networks = pytest.importorskip("slotwise.torch.networks")
build_network, resnet8 = torch_networks.build_network, torch_networks.resnet8


@pytest.mark.parametrize(("normalisation", "has_statistics"), [("group", False), ("batch", True)])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_resnet8_has_the_size_of_its_description(
    normalisation: str, has_statistics: bool, shape: tuple[int, int, int]
) -> None:
    module, size = resnet8(normalisation, channels=shape[0]), Resnet8(shape, 10)
    assert tuple(tuple(p.shape) for p in module.parameters()) == size.parameter_shapes
    assert size.parameters == sum(p.numel() for p in module.parameters())
    assert any(buffer.is_floating_point() for buffer in module.buffers()) == has_statistics
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        assert module(torch.zeros(1, *shape)).shape == (1, 10)
    images = 9 * 16 * shape[0] * shape[1] * shape[2]  # their gradient is not needed
    assert 3 * counter.get_total_flops() // 2 - images == size.dense_multiply_adds


@pytest.mark.parametrize("network", ["resnet8-gn", "resnet8-bn", "cnn-dropout"])
def test_a_run_trains_a_network_of_torch(network: str) -> None:
    config = RunConfig().with_options(network=network, backend="torch", devices=2, group_size=1)
    config = config.with_options(local_steps=1, batch_size=4, samples_per_device=8, model_seed=5)
    task = build_task(config)
    model = task.initial_model()
    assert len(model) == config.network().parameters
    assert task.local_update(model, TrainingStart(1, 0)).any()
    assert (build_task(config.with_options(seed=1)).initial_model() == model).all()
    assert (build_task(config.with_options(model_seed=6)).initial_model() != model).any()


def test_dropout_is_after_the_last_convolution_and_before_the_last_layer() -> None:
    sizes = {name: RunConfig().with_options(network=name).network() for name in ("cnn", "cnn-dropout")}
    plain, dropped = (list(build_network(name, size)) for name, size in sizes.items())
    kinds = [type(layer).__name__ for layer in dropped]
    assert kinds[3:6] == ["Conv2d", "Dropout2d", "MaxPool2d"]
    assert kinds[-2:] == ["Dropout", "Linear"]
    kept = [kind for kind in kinds if not kind.startswith("Dropout")]
    assert kept == [type(layer).__name__ for layer in plain]


@pytest.mark.parametrize("network", ["resnet8-gn", "resnet8-bn"])
def test_networks_of_torch_need_it(network: str) -> None:
    with pytest.raises(InputError) as error:
        RunConfig().with_options(network=network)
    assert error.value.parameter == "network"


def test_the_link_of_resnet8_follows_from_its_size() -> None:
    options = {"network": "resnet8-gn", "backend": "torch", "data": "cifar10", "bits_per_slot": 100_000}
    config = RunConfig.from_options(options)
    assert config.channel.link_slots == -(-config.network().parameters * 32 // 100_000)
