"""Signs of life on a silent line, and the end of what they are put between."""

import asyncio
from collections.abc import AsyncGenerator

from steptrail.interfaces.http.heartbeats import with_beats


async def test_a_reader_that_is_cancelled_while_it_leaves_is_cancelled_when_the_source_has_ended() -> None:
    tidying, is_tidy, went_on = asyncio.Event(), asyncio.Event(), list[str]()

    async def silent() -> AsyncGenerator[int]:
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            tidying.set()
            await is_tidy.wait()
            went_on.append("the source")

    async def read() -> None:
        beats = with_beats(silent(), 0.0)
        assert await anext(beats) is None
        assert await anext(beats) is None
        await beats.aclose()
        went_on.append("the reader, unaware")

    reading = asyncio.create_task(read())
    await tidying.wait()
    reading.cancel()
    await asyncio.sleep(0)
    is_tidy.set()
    await asyncio.wait({reading})
    assert reading.cancelled()
    assert went_on == ["the source"]
