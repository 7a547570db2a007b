"""Sizes: how many samples each device holds, for partitions that do not decide it themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.data.dataset import DataError
from slotwise.options import Either, Range
from slotwise.options.checks import LARGEST, Value

Counts = NDArray[np.int64]
Samples = int | Sequence[int] | NDArray[np.integer]  # one number for all devices, or one for each
Generator = np.random.Generator
Count = Annotated[int, Range(least=1, most=LARGEST)]


class TooManySamples(InputError):
    """More samples for a device than there are: the device, counted from 1, its samples, and the reason."""

    def __init__(self, device: int, samples: int, reason: str) -> None:
        self.device, self.samples, self.reason = device, samples, reason
        super().__init__("samples_per_device", samples, f"less: {reason}")


@dataclass(frozen=True, kw_only=True)
class EqualSizes(Value):
    """Every device holds equally many samples.

    Attributes:
        samples_per_device: Samples of each device, or their mean.
    """

    option: ClassVar[str] = "samples_per_device"  # that decides how many there are in all
    samples_per_device: Count = 250

    def draw(self, devices: int, generator: Generator) -> Samples:  # noqa: ARG002
        """Return the number of samples of every device, or of each."""
        return self.samples_per_device

    def held(self, devices: int) -> int:  # noqa: ARG002
        """Return the samples of a device, for estimates: their mean if they are drawn."""
        return self.samples_per_device

    def total(self, devices: int) -> int:
        """Return the samples of all devices together."""
        return devices * self.samples_per_device

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices that the sizes are not for; these are for any."""

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        return InputError("samples_per_device", self.samples_per_device, error.allowed)


@dataclass(frozen=True, kw_only=True)
class UnequalSizes(EqualSizes, ABC):
    """Devices hold different numbers of samples, in shares of devices·samples_per_device, at least one each.

    Rounding is by largest remainders, so the total is exact.
    """

    skew_option: ClassVar[str] = ""  # that decides how unequal they are
    less_skew: ClassVar[str] = "larger"

    @abstractmethod
    def shares(self, devices: int, generator: Generator) -> NDArray[np.float64]:
        """Return the share of each device; their sum is 1."""

    def draw(self, devices: int, generator: Generator) -> Samples:
        """Return the number of samples of each device."""
        return sizes_of_shares(self.shares(devices, generator), self.samples_per_device)

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        if self.samples_per_device >= error.samples:
            return super().blamed(error)
        drawn = f"device {error.device} would hold {error.samples:,} samples, and {error.reason}"
        allowed = f"{self.less_skew}, or samples_per_device less: {drawn}"
        return InputError(self.skew_option, getattr(self, self.skew_option), allowed)


@dataclass(frozen=True, kw_only=True)
class SkewedSizes(UnequalSizes):
    """Numbers of samples in shares from a Dirichlet distribution: quantity skew.

    After Li, Diao, Chen and He (2022), "Federated learning on non-IID data silos: an experimental study".

    Attributes:
        sample_skew: Devices hold different numbers of samples, in shares drawn from a Dirichlet distribution
            with this concentration; smaller is more unequal. Default: all hold equally many.
    """

    skew_option: ClassVar[str] = "sample_skew"
    sample_skew: Annotated[float, Range(above=0)]

    def shares(self, devices: int, generator: Generator) -> NDArray[np.float64]:
        """Return the share of each device."""
        return generator.dirichlet(np.full(devices, self.sample_skew))


@dataclass(frozen=True, kw_only=True)
class PowerLawSizes(UnequalSizes):
    """Numbers of samples that follow a power law of the device's number: device n holds a share of n^power.

    Numbers of samples by a power law are those of Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith (2020),
    "Federated optimization in heterogeneous networks". With 1 and 2 they grow with the number and its square,
    a linear and a square law; with -1 they fall as in Zipf's law.

    Attributes:
        size_power: Devices hold different numbers of samples: device n a share proportional to n to this
            power, so they grow above 0 and fall below.
    """

    skew_option: ClassVar[str] = "size_power"
    less_skew: ClassVar[str] = "closer to 0"
    size_power: Annotated[float, Range(least=-10, most=10)]

    def shares(self, devices: int, generator: Generator) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the share of each device."""
        powers = np.arange(1, devices + 1, dtype=np.float64) ** self.size_power
        shares: NDArray[np.float64] = powers / powers.sum()
        return shares


@dataclass(frozen=True, kw_only=True)
class LognormalSizes(UnequalSizes):
    """Numbers of samples in shares from a log-normal distribution.

    This is what the published code of Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith (2020), "Federated
    optimization in heterogeneous networks", draws (with 2), and what FedLab calls unbalance_sgm.

    Attributes:
        size_sigma: Devices hold different numbers of samples, in shares drawn from a log-normal distribution
            whose logarithm has this deviation.
    """

    skew_option: ClassVar[str] = "size_sigma"
    less_skew: ClassVar[str] = "smaller"
    size_sigma: Annotated[float, Range(above=0, most=100)]

    def shares(self, devices: int, generator: Generator) -> NDArray[np.float64]:
        """Return the share of each device."""
        logarithms = generator.normal(0.0, self.size_sigma, devices)
        weights = np.exp(logarithms - logarithms.max())
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares


@dataclass(frozen=True, kw_only=True)
class ListedSizes(Value):
    """The samples of each device are listed.

    Attributes:
        device_samples: Samples of devices 1 to N, one by one.
    """

    option: ClassVar[str] = "device_samples"
    device_samples: Annotated[tuple[int, ...], Range(least=1, most=LARGEST)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.device_samples:
            raise InputError("device_samples", "none", "one number for each device")

    def held(self, devices: int) -> int:  # noqa: ARG002
        """Return the most samples that a device holds."""
        return max(self.device_samples)

    def draw(self, devices: int, generator: Generator) -> Samples:  # noqa: ARG002
        """Return the number of samples of each device."""
        return self.device_samples

    def total(self, devices: int) -> int:  # noqa: ARG002
        """Return the samples of all devices together."""
        return sum(self.device_samples)

    def check_devices(self, devices: int) -> None:
        """Refuse another number of devices than that of the list."""
        count = len(self.device_samples)
        if count != devices:
            raise InputError("device_samples", f"{count} numbers", f"{devices}, one for each device")

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        return InputError("device_samples", f"{error.samples} of device {error.device}", error.allowed)


@dataclass(frozen=True, kw_only=True)
class AllSamples:
    """The devices share all training samples; how many each holds follows from the partition.

    Attributes:
        samples: Training samples of the data set, for estimates.
    """

    option: ClassVar[str] = "data"
    samples: int

    def held(self, devices: int) -> int:
        """Return the mean of the samples of a device."""
        return max(1, self.samples // devices)

    def total(self, devices: int) -> int:  # noqa: ARG002
        """Return the samples of all devices together."""
        return self.samples

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices that the sizes are not for; these are for any."""


ChosenSizes = EqualSizes | SkewedSizes | PowerLawSizes | LognormalSizes | ListedSizes
SizesChoice = Annotated[
    ChosenSizes, Either((EqualSizes, SkewedSizes, PowerLawSizes, LognormalSizes, ListedSizes))
]
Sizes = ChosenSizes | AllSamples


def skewed_sizes(devices: int, mean: int, generator: Generator, concentration: float) -> Counts:
    """Draw numbers of samples that differ, as `SkewedSizes` does: shares of devices·mean samples."""
    check_concentration("sample_skew", concentration)
    return sizes_of_shares(generator.dirichlet(np.full(devices, concentration)), mean)


def sizes_of_shares(shares: NDArray[np.float64], mean: int) -> Counts:
    """Return numbers of samples in these shares, at least 1 for each device, with the mean given."""
    spare = len(shares) * (mean - 1)
    wanted = shares * spare
    sizes = np.floor(wanted).astype(np.int64)
    missing = spare - int(sizes.sum())
    sizes[np.argsort(sizes - wanted, kind="stable")[:missing]] += 1
    return sizes + 1


def check_concentration(name: str, concentration: float) -> None:
    """Refuse a concentration of a Dirichlet distribution that is not a finite number above 0."""
    if not 0 < concentration < np.inf:
        raise DataError(f"{name} is {concentration}, must be a finite number above 0")
