"""Stops streams that go on for nobody: the run above has ended, and its owner died before it had stopped them."""

from contextlib import suppress

from steptrail.domain.errors import SteptrailError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import control_of


class LeftBehind:
    """Looks for such streams, and knows those that are none: somebody goes on by hand with what a run began."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._kept = frozenset[str]()

    async def stop(self) -> None:
        """Stop them. What does not succeed is tried again by the next call. Raises `StoreError` of the look alone."""
        rows = await self._env.store.index(IndexQuery(left_behind=True))
        open_below = {row.stream: row.parent.stream for row in rows if row.parent is not None}
        kept = self._kept & open_below.keys()
        for above in {open_below[stream] for stream in open_below.keys() - kept}:
            with suppress(SteptrailError):
                left = await control_of(self._env, above).stop_left_behind()
                kept |= {stream for stream, of in open_below.items() if of == above and stream not in left}
        self._kept = kept
