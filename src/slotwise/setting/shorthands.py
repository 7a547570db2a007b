"""Shorthands of a setting: compute slots from the speed of a device in samples or in cycles of its CPU."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from slotwise.base.errors import ConflictError, InputError, MissingError, NoEffectError
from slotwise.fleet.battery import MOST_JOULES
from slotwise.fleet.cpu import CpuTraining, cpu_training
from slotwise.fleet.devices import EVERY_SPEED
from slotwise.fleet.fleet_file import FleetFile
from slotwise.options import OrText, Shorthand, declared, is_given
from slotwise.options.checks import LARGEST, whole
from slotwise.radio import LINKS
from slotwise.radio.rates import USUAL_SLOT_MS
from slotwise.scenario import checked_changes, parse_sizes, slots_for_samples

DEFAULT_KAPPA = 1e-28
DEFAULT_STEPS, DEFAULT_SAMPLES = 5, 250
Result = TypeVar("Result")


class TrainingWork(NamedTuple):
    """Samples that a local training processes.

    Attributes:
        samples: One number for all devices, or one for each.
        later: The same for trainings whose model is complete in a slot or later: (slot, samples).
        options: Options that must not change any more, because the samples depend on them.
    """

    samples: tuple[int, ...]
    later: tuple[tuple[int, tuple[int, ...]], ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})

    def each(self, compute: Callable[[int], Result]) -> list[Result]:
        """Return a function of the samples of each device, or of all, in the first trainings."""
        known = {samples: compute(samples) for samples in set(self.samples)}
        return [known[samples] for samples in self.samples]

    def speeds(self, compute: Callable[[int], int]) -> dict[str, Any]:
        """Return the options of compute slots, which are a function of the samples."""
        changes: list[Any] = []
        for slot, samples in self.later:
            slots = self._replace(samples=samples).each(compute)
            changes.append((slot, slots[0] if len(set(slots)) == 1 else tuple(slots)))
        first = one_or_each("compute_slots", self.each(compute))
        return {**self.options, **first, "compute_changes": tuple(changes)}


def equal_work(steps: Any, batch_size: Any, epochs: Any, held: Any) -> TrainingWork:
    """Return the samples of H steps, or of E passes over the samples that each device holds."""
    if epochs is None:
        if held is not None:
            raise NoEffectError("samples_per_device", held, "without local_epochs")
        number = whole("local_steps", DEFAULT_STEPS if steps is None else steps)
        if not isinstance(batch_size, str):
            return TrainingWork((number * whole("batch_size", batch_size),))
        (_, first), *changes = parse_sizes("batch_size", batch_size)
        later = checked_changes("batch_size", changes)
        samples = number * whole("batch_size", first)
        return TrainingWork((samples,), tuple((slot, (number * size,)) for slot, size in later))
    if steps is not None:
        raise ConflictError("local_steps", "local_epochs")
    samples = whole("samples_per_device", DEFAULT_SAMPLES if held is None else held)
    return TrainingWork((whole("local_epochs", epochs) * samples,))


def one_or_each(name: str, numbers: Sequence[Any]) -> dict[str, Any]:
    """Return an option for all devices, or the list of numbers of all devices if they differ."""
    return {name: numbers[0]} if len(set(numbers)) == 1 else {f"device_{name}": tuple(numbers)}


@dataclass(frozen=True, kw_only=True)
class SamplesPerSlot(Shorthand):
    """A device's speed in samples.

    Attributes:
        samples_per_slot: q, a device's speed: compute slots are the samples of a local training divided by
            it, rounded up: ceil(H·B/q), or ceil(E·samples/q) with --local-epochs. Instead of --compute-slots.
        local_steps: H, steps of one local training. Default: 5.
        batch_size: B, samples of one step.
        local_epochs: E, passes over the samples of a device in one local training. Instead of --local-steps.
        samples_per_device: Samples of each device, with --local-epochs. Default: 250.
    """

    panel: ClassVar[str] = "channel"
    samples_per_slot: float
    local_steps: int | None = None
    batch_size: Annotated[int, OrText()] = 64
    local_epochs: int | None = None
    samples_per_device: int | None = None

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return all other options of speeds."""
        return (*EVERY_SPEED, *declared(FleetFile))

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return the compute slots, of all devices or device by device."""
        return self.work(known).speeds(self._slots)

    def _slots(self, samples: int) -> int:
        slots = slots_for_samples(samples, self.samples_per_slot)
        if slots > LARGEST:
            allowed = f"more: a training would take more than {LARGEST:,} slots"
            raise InputError("samples_per_slot", self.samples_per_slot, allowed)
        return slots

    def work(self, known: ChainMap[str, Any]) -> TrainingWork:  # noqa: ARG002
        """Return the samples that a local training processes."""
        return equal_work(self.local_steps, self.batch_size, self.local_epochs, self.samples_per_device)


@dataclass(frozen=True, kw_only=True)
class Cpu(Shorthand):
    """A device's speed in cycles of its CPU.

    Attributes:
        cycles_per_sample: CPU cycles of one sample: compute slots are the cycles of a local training divided
            by those of a slot, rounded up, with --cpu-ghz and --cpu-slot-ms. Instead of --compute-slots.
        cpu_ghz: Frequency f of the CPU in GHz.
        cpu_slot_ms: Milliseconds of a slot. With a radio link that is --radio-slot-ms, and one is enough.
        cpu_kappa: Effective capacitance: a cycle takes kappa·f² joules, which batteries pay. Instead of
            --computing-joules.
        local_steps: H, steps of one local training. Default: 5.
        batch_size: B, samples of one step.
        local_epochs: E, passes over the samples of a device in one local training. Instead of --local-steps.
        samples_per_device: Samples of each device, with --local-epochs. Default: 250.
    """

    panel: ClassVar[str] = "fleet"
    cycles_per_sample: float
    cpu_ghz: float | None = None
    cpu_slot_ms: float | None = None
    cpu_kappa: float | None = None
    local_steps: int | None = None
    batch_size: Annotated[int, OrText()] = 64
    local_epochs: int | None = None
    samples_per_device: int | None = None

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return all other options of speeds."""
        return (*EVERY_SPEED, *declared(FleetFile), *list(declared(SamplesPerSlot))[:1])

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return compute slots, the joules of computing if kappa is given, and the duration of a slot."""
        if self.cpu_ghz is None:
            raise MissingError("cpu_ghz", "given together with cycles_per_sample")
        found = self._slot(known)
        slot_ms, work = found.get("slot_ms") or found.get("radio_slot_ms"), self.work(known)
        found |= work.speeds(lambda samples: self._training(samples, slot_ms).slots)
        if self.cpu_kappa is not None:
            if work.later:  # a training does not fill its last slot, so joules of a slot would change as well
                raise InputError("batch_size", known["batch_size"], "one number with cpu_kappa")
            trainings = work.each(lambda samples: self._training(samples, slot_ms))
            joules = [self._joules(training.joules_per_slot, known) for training in trainings]
            found |= one_or_each("computing_joules", joules)
        return found

    def work(self, known: ChainMap[str, Any]) -> TrainingWork:  # noqa: ARG002
        """Return the samples that a local training processes."""
        return equal_work(self.local_steps, self.batch_size, self.local_epochs, self.samples_per_device)

    def _training(self, samples: int, slot_ms: Any) -> CpuTraining:
        """Return slots and joules of a local training."""
        try:
            return cpu_training(
                samples=samples,
                cycles_per_sample=self.cycles_per_sample,
                hertz=_scaled("cpu_ghz", self.cpu_ghz, Fraction(10**9)),
                kappa=DEFAULT_KAPPA if self.cpu_kappa is None else self.cpu_kappa,
                slot_seconds=_scaled("cpu_slot_ms", slot_ms, Fraction(1, 1000)),
            )
        except InputError as error:
            if error.parameter == "kappa":
                error.rename("cpu_kappa")
            raise

    def _slot(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return the duration of a slot: that of the radio link, if uplinks depend on it."""
        if known["radio_link"] not in LINKS or is_given(known["radio_threshold_db"]):
            if self.cpu_slot_ms is None:
                raise MissingError("cpu_slot_ms", "given together with cycles_per_sample")
            return {"slot_ms": self.cpu_slot_ms}
        given = known.maps[0].get("radio_slot_ms")
        refuse_other_slot_ms(self.cpu_slot_ms, given)
        usual = known["radio_slot_ms"] or USUAL_SLOT_MS
        return {"radio_slot_ms": usual if self.cpu_slot_ms is None else self.cpu_slot_ms}

    def _joules(self, joules: float, known: ChainMap[str, Any]) -> float:
        """Return the joules of a slot of computing, if there are batteries that pay them."""
        for name in ("computing_joules", "device_computing_joules"):
            if is_given(known.maps[0].get(name)):
                raise ConflictError("cpu_kappa", name)
        if not (is_given(known["battery_joules"]) or is_given(known["device_battery_joules"])):
            raise NoEffectError("cpu_kappa", self.cpu_kappa, "without batteries")
        if joules > MOST_JOULES:
            allowed = f"smaller: {joules:.3g} joules in a slot, and {MOST_JOULES:,.0f} are the most"
            raise InputError("cpu_kappa", self.cpu_kappa, allowed)
        return joules


def refuse_other_slot_ms(cpu: float | None, radio: float | None) -> None:
    """Raise an InputError if the slots of a CPU and of a radio are both known, and differ."""
    if cpu is not None and radio is not None and cpu != radio:
        raise InputError("cpu_slot_ms", cpu, f"{radio}, like radio_slot_ms, or omitted")


def _scaled(name: str, value: Any, factor: Fraction) -> Fraction:
    """Return a number in another unit, exactly as its decimal digits say: a product of floats is rounded."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        raise InputError(name, value, f"a number above 0 and below {LARGEST:,}")
    return Fraction(str(value)) * factor
