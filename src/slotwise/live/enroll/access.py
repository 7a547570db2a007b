"""Who may say what: mosquitto's access file. What is not listed is refused."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.live.topics import Topics

SERVER = "server"


def device_user(number: int) -> str:
    """The name under which the broker knows a device."""
    return f"device-{number}"


def access_file(topics: Topics, devices: Iterable[int]) -> str:
    """Device n says what device n says and reads what it is told; the server hears all and tells all.

    It also hears the call, which may be that of another server.
    """
    blocks = [
        "# Written by slotwise enroll, and written anew by its --add and --revoke.",
        "",
        f"user {SERVER}",
        f"topic write {topics.to_device('+', '+')}",
        f"topic write {topics.to_all('#')}",
        f"topic read {topics.from_all_devices}",
        f"topic read {topics.to_all('call')}",
    ]
    for number in devices:
        blocks += [
            "",
            f"user {device_user(number)}",
            f"topic write {topics.from_device(number, '+')}",
            f"topic read {topics.to_device(number, '+')}",
            f"topic read {topics.as_receiver(number)}",
            f"topic read {topics.to_all('call')}",
            f"topic read {topics.to_all('end')}",
        ]
    return "\n".join(blocks) + "\n"
