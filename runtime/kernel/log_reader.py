"""Reads which streams have grown, once for all who wait in one event loop for streams of one store.

A caller that waits for a stream watches it. Otherwise each commit would wake all callers, and each would ask the store.
The reader begins with the first watch and ends with the last. It waits for the store, reads the names and versions of
what is new, and tells those who watch these streams. It decodes nothing.

It asks by position, at the latest every second. So as long as it works, nothing is missed, also when the store did not
notify it. When it fails, it tells all watches and is over. A caller that goes on waiting watches again, and then looks
once, because the stream may have grown between. Callers that read all streams watch the whole log.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context

from steptrail.runtime.kernel.ports import EventStore

_LOOK_AGAIN_SECONDS = 1.0
"""How often the store is asked again, in case that it was not notified of a commit."""
_REST_SECONDS = 0.005
"""How long the reader rests after it has found something, so that a burst of commits is read at once."""


_ALL = ""
"""Stands for all streams. No stream has this name."""


class Watch:
    """Is told that one stream, or the log, has grown, until it is left. It belongs to the loop in which it was made.

    `on_growth` gets the newest version of the stream, or the last position of the log; None when it may have grown.
    `on_failure` gets the error of a reader that is over; None when it was only ended. Neither may raise.
    """

    def __init__(
        self,
        reader: "_LogReader",
        stream: str,
        on_growth: Callable[[int | None], None],
        on_failure: Callable[[Exception | None], None],
    ) -> None:
        self._reader, self.stream = reader, stream
        self.on_growth, self.on_failure = on_growth, on_failure

    @property
    def is_over(self) -> bool:
        """Tell whether nothing will be told any more."""
        return self not in self._reader.watches.get(self.stream, ())

    def leave(self) -> None:
        """Be told nothing more. Safe to call twice."""
        self._reader.drop(self)


def watch_stream(
    store: EventStore,
    stream: str,
    on_growth: Callable[[int | None], None],
    on_failure: Callable[[Exception | None], None],
) -> Watch:
    """Begin to watch a stream in the running event loop.

    Read the stream after this call: what is not in that read will be told.
    """
    loop = asyncio.get_running_loop()
    reader = _readers.get((store, loop))
    if reader is None:
        for key in [key for key in list(_readers) if key[1].is_closed()]:
            _readers.pop(key, None)  # their loop ended without ending its tasks
        reader = _readers[store, loop] = _LogReader(store, loop)
    watch = Watch(reader, stream, on_growth, on_failure)
    reader.watches.setdefault(stream, {})[watch] = None
    return watch


def watch_log(
    store: EventStore, on_growth: Callable[[int | None], None], on_failure: Callable[[Exception | None], None]
) -> Watch:
    """Begin to watch all streams at once. Read the log after this call, as with `watch_stream`."""
    return watch_stream(store, _ALL, on_growth, on_failure)


class _LogReader:
    def __init__(self, store: EventStore, loop: asyncio.AbstractEventLoop) -> None:
        self.watches: dict[str, dict[Watch, None]] = {}
        self._store, self._loop = store, loop
        # In a context of its own: it is not part of the work of the one who came first.
        self._task = loop.create_task(self._read(), name="steptrail-log-reader", context=Context())

    def drop(self, watch: Watch) -> None:
        of_stream = self.watches.get(watch.stream, {})
        of_stream.pop(watch, None)
        if not of_stream and self.watches.pop(watch.stream, None) is not None and not self.watches:
            self._forget()
            self._task.cancel()

    async def _read(self) -> None:
        failure: Exception | None = None
        try:
            position = await self._store.last_position()
            for watch in self._all():
                # It may have read its stream before the position was known.
                watch.on_growth(None)
            while True:
                await self._store.wait_past(position, timeout=_LOOK_AGAIN_SECONDS)
                before, (position, grown) = position, await self._store.grown(position)
                for stream, end in (*grown.items(), (_ALL, position)) if grown else ():
                    for watch in list(self.watches.get(stream, ())):
                        watch.on_growth(end)
                if position < before:
                    # Another log is there, and nobody knows which streams of it have grown.
                    for watch in self._all():
                        watch.on_growth(None)
                if grown:
                    await asyncio.sleep(_REST_SECONDS)
        except Exception as error:
            failure = error
        finally:
            self._forget()
            watches = self._all()
            self.watches.clear()
            for watch in watches:
                watch.on_failure(failure)

    def _all(self) -> list[Watch]:
        return [watch for of_stream in self.watches.values() for watch in of_stream]

    def _forget(self) -> None:
        if _readers.get((self._store, self._loop)) is self:
            del _readers[self._store, self._loop]


_readers: dict[tuple[EventStore, asyncio.AbstractEventLoop], _LogReader] = {}
"""The readers that somebody waits for. Each event loop uses only its own."""
