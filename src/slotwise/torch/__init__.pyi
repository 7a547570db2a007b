from slotwise.torch.samples import TorchSamples as TorchSamples
from slotwise.torch.task import TorchTask as TorchTask
