"""Lists and subscriptions over all streams of a store, of whatever kind."""

from collections.abc import Sequence
from typing import Literal

from steptrail.domain.errors import SessionNotFound, StoreUnavailable
from steptrail.domain.instants import Datetime
from steptrail.domain.kernel.given import a_flag, a_whole
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.shared.tags import kept_apart
from steptrail.interfaces.python.lists import (
    a_tenant,
    agent_name,
    instant_of,
    known_wait,
    newest_questions,
    one_of,
    tree_of,
)
from steptrail.interfaces.python.naming import stream_named
from steptrail.projections.questions import ASKS_PEOPLE, Question
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.follower import Follower
from steptrail.runtime.kernel.lists import crashed_runs, due_runs, listed_runs
from steptrail.runtime.kernel.subscription import OnCorrupt, Subscription


class StoreReader:
    """Reads all streams of a store: lists of runs, open questions, trees, and the log itself."""

    _env: Environment
    _is_closed: bool

    async def runs(
        self,
        *,
        status: str | None = None,
        stop_reason: str | None = None,
        agent: str | None = None,
        waits_for: str | None = None,
        parent: str | None = None,
        since: Datetime | None = None,
        until: Datetime | None = None,
        crashed: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[RunSummary]:
        """Return a page of the sessions and other runs of the store, the one that began last first.

        `status`, `stop_reason`, `agent` (its name), `waits_for` (the kind of an open wait, such as `approval`),
        `parent` (the name of the one above), `since` and `until` (those that began then or later, and before) and
        `crashed` (they are in progress, and no process runs them) leave the others out. `after` is the name of the last
        session of the page before. A list is never late: what it says of the standing was stored with the commit that
        changed it. Numbers that grow with each step are as of `version`. Raises `SessionNotFound` when `after` is not
        there, and `ConfigurationError` for a status, a stop reason or a kind of wait that does not exist, for a time
        without a zone, and for a `limit` below 0.
        """
        asked = IndexQuery(
            status=one_of(ExecutionStatus, "status", status),
            stop_reason=one_of(StopReason, "stop_reason", stop_reason),
            name=agent_name(agent),
            waits_for=None if waits_for is None else (known_wait(waits_for),),
            parents=None if parent is None else [stream_named(parent)],
            since=None if since is None else instant_of("since", since),
            until=None if until is None else instant_of("until", until),
            after=None if after is None else stream_named(after),
            limit=a_whole(limit, "`limit`"),
        )
        list_of = crashed_runs if a_flag(crashed, "`crashed`") else listed_runs
        found = await list_of(self._env.store, asked)
        if not found and asked.after is not None and not await self._env.store.version(asked.after):
            raise SessionNotFound(asked.after)
        return found

    async def tree(self, name: str) -> RunTree:
        """Return a session, or another run by its name, with everything that was begun for it, and the bill of each.

        One with a record that cannot be read says so in its `damage`. Raises `SessionNotFound` and `SessionErased`.
        """
        stream = stream_named(name)
        tree = await tree_of(self._env.store, stream)
        if tree is None:
            await self._env.store.head(stream)  # raises for one that was erased
            raise SessionNotFound(name)
        return tree

    def subscribe(
        self,
        after: int | Literal["now"] = 0,
        *,
        types: Sequence[str] = (),
        session: str | None = None,
        follow: bool = True,
        on_corrupt: OnCorrupt | None = None,
    ) -> Subscription:
        """Return the events of all streams after position `after`, and then each that is stored, by any process.

        `"now"` leaves out what is stored before the subscription is entered with `async with`, or first asked. `types`
        are type names such as `ExecutionFinished.TYPE`, `session` is the id of one session, which need not exist yet,
        or the name of another stream, such as `flow:order-7`.
        `follow=False` ends where the log ends. At a record that cannot be read the iteration raises `CorruptRecord`,
        or tells `on_corrupt` and goes on. At most 500 events wait for a slow consumer; the rest stays in the store.
        Closing the trail ends the iteration. Raises `ConfigurationError` for what cannot be meant, and
        `StoreUnavailable` when the trail is closed already.
        """
        if self._is_closed:
            raise StoreUnavailable("the trail is closed: open it again to subscribe")
        return Subscription(
            self._env.store,
            after=after,
            types=types,
            stream=None if session is None else stream_named(session),
            follow=follow,
            on_corrupt=on_corrupt,
            is_store_closed=lambda: self._is_closed,
        )

    def follower(
        self, name: str, *, types: Sequence[str] = (), wait: bool = False, on_corrupt: OnCorrupt | None = None
    ) -> Follower:
        """Return a subscription that has a name and goes on after what was kept under it, in whatever process.

        One is at work at a time: another one raises `FollowerBusy` where it is entered, or is to `wait` for its turn.
        `types` and `on_corrupt` are those of `subscribe`. Raises `ConfigurationError` for what cannot be meant, and
        `StoreUnavailable` when the trail is closed already.
        """
        if self._is_closed:
            raise StoreUnavailable("the trail is closed: open it again to follow")
        return Follower(
            self._env.store,
            name,
            types=types,
            wait=wait,
            on_corrupt=on_corrupt,
            is_store_closed=lambda: self._is_closed,
        )

    async def due(self, *, limit: int | None = None) -> Sequence[RunSummary]:
        """Return the sessions, and other runs, that a `resume` would bring on now, the one that began last first.

        Those whose wait was answered or is over, those that wait for a run below them that does not rest any more,
        those that were paused because their caller was cancelled, those to which something was said while they were at
        rest, and those that are in progress with no process running them. `row.due` says which of these it is. One
        that cannot be read is left out.
        """
        most = None if limit is None else a_whole(limit, "`limit`")
        return await due_runs(self._env.store, self._env.clock.utc(), most)

    async def inbox(
        self, *, limit: int = 50, after: str | None = None, tenant: str | None = None
    ) -> Sequence[Question]:
        """Return what people are asked and have not answered, in the sessions that began last first.

        That is approvals and questions of workflows that have not expired, calls with an unknown outcome that are
        parked, and nodes that are held. `limit` counts sessions that are asked anything, and `after` names the last
        session of the page before. With a `tenant`, it is what is asked in the runs of that tenant alone. `session(…)`
        or `flow(…)` of the one that asks takes the answer. A session that cannot be read is left out, and marked in
        `runs`.
        """
        most = a_whole(limit, "`limit`")
        asked = IndexQuery(
            waits_for=ASKS_PEOPLE,
            tenant=None if tenant is None else kept_apart(a_tenant(tenant)),
            after=None if after is None else stream_named(after),
            limit=most,
        )
        return await newest_questions(self._env.store, asked, self._env.clock.utc())
