"""Random selection: all waiting devices are equally likely (McMahan et al., 2017, for participants)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from slotwise.fleet.chances import chance
from slotwise.options import Derived
from slotwise.random_streams import SchedulePurpose
from slotwise.schedule.selection import Waiting


@dataclass(frozen=True)
class RandomSelection:
    """Choose at random, as a function of the seed, the round, the last sender and the losses of the round."""

    seed: Annotated[int, Derived()] = 0
    depends_on_seed: ClassVar[bool] = True

    def __call__(self, waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:
        """Choose the update whose device draws the lowest number."""
        # A number for each device, which does not depend on who else is waiting.
        key = [self.seed, SchedulePurpose.SELECTION, round_number, last_sender]
        # A device sends again in the same round only after a loss, and must not draw the same number again.
        if waiting[0].lost_in_round:
            key.append(waiting[0].lost_in_round)
        return min(waiting, key=lambda update: (chance(*key, update.device), update.device))
