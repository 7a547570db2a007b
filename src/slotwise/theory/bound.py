"""Theorem 1 in numbers: the bound on the mean squared gradient norm, as published and as it can be proved.

Each function returns Q1..Q4 of Appendix D, such that

    (1/(K+1)) · sum over k = 0..K of E‖∇f(w_k)‖²  ≤  (Q2 + Q3 + Q4) / Q1

if the function's conditions hold. `published` is the paper's, to the letter. `corrected` is a theorem
under the paper's assumptions. `round_robin` is one under an assumption more, and its bound vanishes as the
rounds grow. docs/bound.md derives both and explains what is wrong with the first. A delay enters through
G → d*+1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

from slotwise.base.errors import InputError
from slotwise.options.checks import whole
from slotwise.scenario import Scenario

LARGEST_CONSTANT = 1e30  # products of several constants must stay within the range of floats


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants of a learning task in the convergence analysis.

    Attributes:
        smoothness: L, with ‖∇f(w) − ∇f(w')‖ ≤ L‖w − w'‖ (assumption 1).
        gradient_noise: σ², and
        noise_growth: M, with E‖∇f_n(w; ζ)‖² ≤ σ² + M‖∇f_n(w)‖² for one sample ζ (assumption 2).
        heterogeneity: Γ², with ‖∇f(w) − ∇f_n(w)‖² ≤ Γ² (assumption 3).
        initial_gap: f(w_0) − f(w_{K+1}), or anything above it such as f(w_0) − inf f, which `round_robin`
            needs.
        initial_gradient2: ‖∇f(w_0)‖².
        device_smoothness: the same L of every single f_n, for `round_robin`; None takes that of f.
    """

    smoothness: float
    gradient_noise: float
    noise_growth: float
    heterogeneity: float
    initial_gap: float
    initial_gradient2: float
    device_smoothness: float | None = None

    def __post_init__(self) -> None:
        for name in ("noise_growth", "gradient_noise", "heterogeneity", "initial_gap", "initial_gradient2"):
            value, least = getattr(self, name), 1 if name == "noise_growth" else 0
            if not least <= value <= LARGEST_CONSTANT:
                raise InputError(name, value, f"a number from {least} to {LARGEST_CONSTANT:g}")
        _above_0("smoothness", self.smoothness)
        if self.device_smoothness is not None:
            _above_0("device_smoothness", self.device_smoothness)

    @property
    def largest_smoothness(self) -> float:
        """An L that holds for f and for every f_n."""
        return max(self.smoothness, self.device_smoothness or 0.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training along a schedule: K+1 = ``rounds`` rounds with one gradient per update (H = 1).

    The theorem supposes equal devices and that S divides N; synchronous rounds are the largest delay, G−1.
    """

    scenario: Scenario
    rounds: int
    batch_size: int
    learning_rate: float
    delay: int = 0

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        whole("batch_size", self.batch_size)
        _above_0("learning_rate", self.learning_rate)
        if not self.scenario.divides:
            allowed = f"a divisor of {self.scenario.devices}, the number of devices: Theorem 1 supposes it"
            raise InputError("group_size", self.scenario.group_size, allowed)
        self.scenario.checked_delay(self.delay)

    @property
    def staleness(self) -> int:
        """d* = G−1−delay, the staleness of every update from round d* on."""
        return self.scenario.groups - 1 - self.delay


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The bound (Q2 + Q3 + Q4) / Q1, and whether the theorem covers the case."""

    q1: float  # the factor of the mean squared gradient norm
    q2: float  # the part of the first gradient
    q3: float  # the part of the initial gap
    q4: float  # the part of noise and heterogeneity
    largest_rate: float  # the largest step size covered, for so many rounds
    uncovered: tuple[str, ...]  # why the theorem does not cover the case; empty if it does

    @property
    def covered(self) -> bool:
        """True if the theorem covers this case."""
        return not self.uncovered

    @property
    def value(self) -> float:
        """The bound; infinite if Q1 is not positive."""
        return (self.q2 + self.q3 + self.q4) / self.q1 if self.q1 > 0 else inf

    def as_dict(self) -> dict[str, Any]:
        """Return the parts by name for JSON; an infinite value is None."""
        parts = {name: getattr(self, name) for name in ("q1", "q2", "q3", "q4", "largest_rate")}
        value = self.value if isfinite(self.value) else None
        return {**parts, "value": value, "covered": self.covered, "uncovered": list(self.uncovered)}


def published(constants: Constants, setting: Setting) -> Bound:
    """Return Theorem 1 and Appendix D as printed, mistakes included; N is (d*+1)·S if there is a delay.

    It requires eta ≤ beta/sqrt(K+1) and K ≥ 2G.
    """
    rate, rounds, batch = setting.learning_rate, setting.rounds, setting.batch_size
    # A delay leaves d*+1 groups, so N is counted with these.
    size, groups = setting.scenario.group_size, setting.staleness + 1
    devices, smooth, growth = groups * size, constants.smoothness, constants.noise_growth
    spread = constants.gradient_noise + growth * constants.heterogeneity
    first = rate**2 * growth * smooth * groups * (groups + 2 * groups**2 * rate * smooth - 1)
    # As printed; the proof's own steps give eta·N·B(G−1) here (docs/bound.md).
    second = rate * devices * (rate * groups * batch - 1)
    # The sum of the staleness min(k, G−1) over the rounds 0 to K.
    aged = (groups - 1) * (rounds - groups / 2)
    linear = rate * growth * smooth / (size * batch)
    q1 = rate * (2 - linear - (rate * smooth) ** 2 * growth * devices / (size**2 * batch))
    limit = published_beta(constants, setting) / sqrt(rounds)
    too_short = [f"K = {rounds - 1:,} is below 2G = {2 * groups:,}"] if rounds - 1 < 2 * groups else []
    return Bound(
        q1=q1,
        q2=(first - second) / (devices * batch * rounds) * constants.initial_gradient2,
        q3=2 * constants.initial_gap / rounds,
        q4=rate**3 * smooth**2 * spread * aged / (size * batch * rounds)
        + rate**2 * smooth * spread / (size * batch),
        largest_rate=limit,
        uncovered=(*_uncovered(rate, limit, "beta/sqrt(K+1)", q1), *too_short),
    )


def published_beta(constants: Constants, setting: Setting) -> float:
    """Return beta = SB/(2LN)·(sqrt(1 + 8N/(BM)) − 1) of Theorem 1.

    It is the root of 2 − eta·ML/S − eta²·L²MN/(S²B): the linear term of Q1 without its 1/B.
    """
    size, batch = setting.scenario.group_size, setting.batch_size
    devices = (setting.staleness + 1) * size
    root = sqrt(1 + 8 * devices / (batch * constants.noise_growth))
    return size * batch / (2 * constants.smoothness * devices) * (root - 1)


def corrected(constants: Constants, setting: Setting) -> Bound:
    """Return the bound that follows from the paper's assumptions (docs/bound.md, theorem A).

    A floor of 2Γ² stays. It requires L·eta + 2(L·eta·d*)² ≤ 1 and Q1 > 0, for any number of rounds.
    """
    age, floor = setting.staleness, 2 * setting.learning_rate * constants.heterogeneity
    descent = _positive_root(2 * age**2, 1, 1)
    return _bound(constants, setting, constants.smoothness, descent, drift=2 * age, floor=floor)


def round_robin(constants: Constants, setting: Setting) -> Bound:
    """Return the bound for groups that take turns if every f_n is L-smooth (docs/bound.md, theorem B).

    Devices hold equally many samples, so that f is the mean of the f_n. The heterogeneity of a whole cycle of
    G rounds cancels, and what is left of it is of the order (eta·L·G)². It requires
    2L·eta + 16(L·eta)²·G(G−1) ≤ 1 and Q1 > 0; L·eta·G ≤ 1/4 is enough for the first.
    """
    groups, rate = setting.scenario.groups, setting.learning_rate
    smooth, descent = constants.largest_smoothness, _positive_root(16 * groups * (groups - 1), 2, 1)
    floor = 10 * rate**3 * (smooth * (groups // 2)) ** 2 * constants.heterogeneity
    return _bound(constants, setting, smooth, descent, drift=16 * (groups - 1), floor=floor)


def _bound(
    constants: Constants, setting: Setting, smoothness: float, descent: float, *, drift: float, floor: float
) -> Bound:
    """Return the form of both theorems, with a = L·eta + drift·(L·eta)², v = (M−1)/(SB) and s = σ²/(SB).

    Q1 = eta(1 − 2va), Q2 = 2va·eta·d*‖∇f(w_0)‖²/(K+1), Q3 = 2·gap/(K+1), Q4 = floor + a·eta(s + 2vΓ²);
    L·eta must not exceed ``descent``.
    """
    rate = setting.learning_rate
    step = smoothness * rate
    samples = setting.scenario.group_size * setting.batch_size
    growth, noise = (constants.noise_growth - 1) / samples, constants.gradient_noise / samples
    carried = step + drift * step**2
    q1 = rate * (1 - 2 * growth * carried)
    first = 2 * growth * carried * rate * setting.staleness * constants.initial_gradient2
    # Q1 > 0 is a limit of its own: L·eta + drift·(L·eta)² < 1/(2v).
    limit = min(descent, _positive_root(drift, 1, 1 / (2 * growth)) if growth else inf) / smoothness
    return Bound(
        q1=q1,
        q2=first / setting.rounds,
        q3=2 * constants.initial_gap / setting.rounds,
        q4=floor + carried * rate * (noise + 2 * growth * constants.heterogeneity),
        largest_rate=limit,
        uncovered=tuple(_uncovered(rate, limit, "its limit", q1)),
    )


def _positive_root(square: float, linear: float, target: float) -> float:
    """Return the x > 0 with square·x² + linear·x = target, also for square = 0."""
    # The usual form would divide by ``square``, and cancel digits if that is small.
    return 2 * target / (linear + sqrt(linear**2 + 4 * square * target))


def _uncovered(rate: float, limit: float, name: str, q1: float) -> list[str]:
    too_fast = [f"step size {rate:.3g} is above {name} = {limit:.3g}"] if rate > limit else []
    return too_fast if q1 > 0 else [*too_fast, "Q1 is not positive"]


def _above_0(name: str, value: float) -> None:
    if not 0 < value <= LARGEST_CONSTANT:
        raise InputError(name, value, f"a number above 0, at most {LARGEST_CONSTANT:g}")
