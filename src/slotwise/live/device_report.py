"""DeviceReport: what a device says about itself, with a fixed set of fields of bounded length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from slotwise.live.protocol import BUILD

ERROR_LIMIT = 200  # characters
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?")


@dataclass(frozen=True)
class DeviceReport:
    """Report of a device about itself; what it does not say, or not as a number, is 0 or empty.

    Attributes:
        slotwise: Version of its slotwise or other program.
        memory_mb: Megabytes of memory that its process takes.
        uptime: Seconds since it was started.
        trainings: Trainings since then.
        error: Its last error, such as why it cannot take part; at most 200 characters.
        error_age: Seconds since that error.
        certificate_days: Days until its certificate ends; 0 without one.
    """

    slotwise: str = ""
    memory_mb: float = 0.0
    uptime: float = 0.0
    trainings: int = 0
    error: str = ""
    error_age: float = 0.0
    certificate_days: float = 0.0

    @classmethod
    def in_fields(cls, fields: Mapping[str, str]) -> DeviceReport:
        """Return the report in a message, which any program may have written."""
        build, error = fields.get("slotwise", ""), fields.get("error", "")
        names = ("memory_mb", "uptime", "trainings", "error_age", "certificate_days")
        memory_mb, uptime, trainings, error_age, certificate_days = (
            _number(fields.get(name, "")) for name in names
        )
        return cls(
            build if BUILD.fullmatch(build) else "",
            memory_mb,
            uptime,
            int(trainings),
            # Without line feeds and escape sequences: it is logged and shown.
            ascii(error[:ERROR_LIMIT])[1:-1][:ERROR_LIMIT],
            error_age,
            certificate_days,
        )

    def fields(self) -> dict[str, str]:
        """Return the fields of a message with this report."""
        values = {name: value for name, value in asdict(self).items() if value}
        texts = {n: f"{value:.1f}" if isinstance(value, float) else str(value) for n, value in values.items()}
        return {name: text[:ERROR_LIMIT] for name, text in texts.items()}


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else 0.0
