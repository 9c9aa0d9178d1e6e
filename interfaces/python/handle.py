"""A handle on one stream, of whatever kind: what can be read of any machine."""

from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

from steptrail.domain.errors import ConfigurationError, stream_name
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.given import a_flag, a_whole
from steptrail.domain.kernel.machine import E, S
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.python.explaining import explained, scores_in
from steptrail.projections.kinds import Explanation
from steptrail.projections.run_explanation import RunExplanation
from steptrail.projections.scores import RecordedScore, that_count
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.following import Following
from steptrail.runtime.kernel.history import history, history_of_types, typed_records
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS, not_found, types_of_events

X_co = TypeVar("X_co", bound=Explanation, covariant=True)


class Handle(Generic[S, E, X_co]):
    """A handle on one stream, from any process. Holds nothing open; the stream is not looked up before it is used.

    Raises `ConfigurationError` for a stream of no kind that is known here.
    """

    def __init__(self, environment: Environment, stream: str) -> None:
        kind = KINDS.of(stream)
        if kind is None:
            raise ConfigurationError(f"no kind of machine that is known here has a stream {stream!r}")
        self._env, self.stream_id, self._machine = environment, stream, kind.machine

    def __repr__(self) -> str:
        """Return what it is a handle on: `<Session 'order-7'>`."""
        return f"<{type(self).__name__} {self.id!r}>"

    @property
    def environment(self) -> Environment:
        """The environment with which it reads and runs."""
        return self._env

    @property
    def id(self) -> str:
        """The id without the prefix of the kind."""
        return id_of(self.stream_id)

    async def state(self, *, at: int | None = None) -> S:
        """Return the state as it is stored, or as it was after `at` events.

        Raises `SessionNotFound`, and `ConfigurationError` for a session that has no such event yet.
        """
        if at is not None:
            a_whole(at, "`at`, a version,")
        state, _ = await fold_stream(self._machine, self._env.store, self.stream_id, at=at)
        if not state.version and at != 0:
            raise await not_found(self._env.store, self.stream_id)
        if at is not None and at > state.version:
            name = stream_name(self.stream_id)
            raise ConfigurationError(f"session {name!r} has {state.version} events: `at` takes a number up to that")
        return cast("S", state)

    async def events(self, *, after: int = 0) -> Sequence[Recorded[E]]:
        """Return the events after version `after`, oldest first. Raises `SessionNotFound`."""
        stored = await self._env.store.read(self.stream_id, after=a_whole(after, "`after`, a version,"))
        return await self._of_what_is_there(typed_records(self._machine, stored.records))

    async def history(self, *, at: int | None = None, types: Sequence[str] = ()) -> Sequence[Recorded[E]]:
        """Return the events that the stream is folded from, up to its version `at`, or those of the stored `types`.

        They are its own. For a fork those of the past that it shares come first, with the versions they have there.
        Raises `SessionNotFound`, and `ConfigurationError` for a type that no event has.
        """
        if at is not None:
            a_whole(at, "`at`, a version,")
        wanted = types_of_events(types, "`types`")
        if at == 0:
            return ()
        if wanted:
            found = await history_of_types(self._machine, self._env.store, self.stream_id, wanted, at=at)
        else:
            found = await history(self._machine, self._env.store, self.stream_id, at=at)
        return await self._of_what_is_there(found)

    async def _of_what_is_there(self, found: Sequence[Recorded[E]]) -> Sequence[Recorded[E]]:
        if not found and not await self._env.store.version(self.stream_id):
            raise await not_found(self._env.store, self.stream_id)
        return found

    async def scores(self, *, history: bool = False) -> Sequence[RecordedScore]:
        """Return the scores that count, oldest first: the newest of each name, by the same, of the same; or all.

        Those of a fork are its own: the past that it shares was scored where it happened. Raises `SessionNotFound`.
        """
        store = self._env.store
        if not (await store.read(self.stream_id, limit=1)).records:  # which says so of one that was erased
            raise await not_found(store, self.stream_id)
        scores = await scores_in(store, self.stream_id)
        return scores if a_flag(history, "`history`") else that_count(scores)

    def follow(self, *, after: int = 0, forever: bool = False) -> Following:
        """Return the events after version `after`, then each that any process stores, until the session has ended.

        Between them come live updates, each in its place: never after the event that holds the whole. On PostgreSQL
        they come from a run of any process, on SQLite from one of this process. With `forever` it goes on with the
        executions to come. A paused or waiting session has not ended. A slow consumer holds up nobody: events wait in
        the store, and of live updates the oldest are dropped, which an `UpdatesLost` in their place says. Raises
        `SessionNotFound` when it is entered or first asked, and `ConfigurationError` for a negative `after`.
        """
        return Following(self._env.store, self.stream_id, self._env.fanout, after=after, forever=forever)

    async def why(self, *, execution: str | int | None = None) -> X_co:
        """Explain why the session stopped, or why it has not, also when it is running, paused, waiting or crashed.

        It is about the newest execution, or the one of that id or number. Of a session that is damaged what comes
        before the damage is explained, and the damage is told. Of a failed run `same_failure` says how often that
        failure has come lately, where the store has read models. Raises `SessionNotFound`, and `ConfigurationError` for
        an execution that there is not.
        """
        now = self._env.clock.utc()
        found = await explained(self._env.store, self.stream_id, now=now, execution=execution)
        if isinstance(found, RunExplanation) and found.status is ExecutionStatus.FAILED:
            from steptrail.interfaces.python.failing_alike import with_same_failure

            return cast("X_co", await with_same_failure(found, self._env.store, self.stream_id, now))
        return cast("X_co", found)


AnyHandle: TypeAlias = Handle[Any, Any, Explanation]
"""A handle on a stream of any kind."""
