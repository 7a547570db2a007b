"""Facts about the built-in data sets: titles, shapes of inputs, numbers of classes and natural owners."""

from dataclasses import dataclass
from typing import Literal

FetchedName = Literal["fashion-mnist", "cifar10", "cifar100", "emnist", "femnist", "shakespeare"]
DataName = Literal["mnist", FetchedName]
WINDOW = 80  # characters from which the next one of Shakespeare is predicted
# The characters of the LEAF benchmark; any other has the number after the last.
CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"


@dataclass(frozen=True)
class DataFacts:
    """Facts about one built-in data set.

    Attributes:
        title: Name for people.
        input_shape: Shape of the input of one sample; images are [channels, height, width].
        classes: Number of classes.
        samples: Number of training samples; roughly, if it depends on the files that were fetched.
        owners: Natural owners of the samples, in the plural; None if they are not known.
        samples_per_owner: Mean number of training samples of an owner, for estimates of running times.
    """

    title: str
    input_shape: tuple[int, ...]
    classes: int
    samples: int
    owners: str | None = None
    samples_per_owner: int = 0

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width; None if the inputs are not images."""
        return self.input_shape if len(self.input_shape) == 3 else None


FACTS: dict[str, DataFacts] = {
    "mnist": DataFacts("MNIST", (1, 28, 28), 10, 60_000),
    "fashion-mnist": DataFacts("Fashion-MNIST", (1, 28, 28), 10, 60_000),
    "cifar10": DataFacts("CIFAR-10", (3, 32, 32), 10, 50_000),
    "cifar100": DataFacts("CIFAR-100", (3, 32, 32), 100, 50_000),
    "emnist": DataFacts("EMNIST", (1, 28, 28), 47, 112_800),
    "femnist": DataFacts("FEMNIST", (1, 28, 28), 62, 730_000, "writers", 203),
    "shakespeare": DataFacts("Shakespeare", (WINDOW,), len(CHARACTERS) + 1, 3_800_000, "characters", 3370),
}
TITLES: dict[str, str] = {name: facts.title for name, facts in FACTS.items()}
