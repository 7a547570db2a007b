"""The application of the live page without a network."""

import asyncio

from slotwise.web.live_app import LiveApp
from slotwise.web.live_page import LivePage


def test_the_run_knows_how_many_streams_are_open() -> None:
    live = LivePage()
    app = LiveApp(live)

    async def readers() -> list[int]:
        found = []
        async with app._lifespan(app.app):
            streams = [app._streams._events() for _ in range(2)]
            for stream in streams:
                await anext(stream)
                live._tell()  # as after a snapshot
                found.append(live.readers)
            for stream in streams:
                await stream.aclose()  # type: ignore[attr-defined]
                live._tell()
                found.append(live.readers)
        return found

    assert asyncio.run(readers()) == [1, 2, 1, 0]
