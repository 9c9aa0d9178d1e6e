"""The pages, each an answer to one request: the overview, the lists, one run, one body, the health."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from steptrail.domain.errors import ConfigurationError, CorruptRecord, StoreError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.http.inspector.access import Access, visible
from steptrail.interfaces.http.inspector.answering import Answering, NotThere, number_in
from steptrail.interfaces.http.inspector.bodies import at_path
from steptrail.interfaces.http.inspector.comparing import Side, compare
from steptrail.interfaces.http.inspector.counted import alike
from steptrail.interfaces.http.inspector.events import event_at
from steptrail.interfaces.http.inspector.lists import (
    PAGE,
    needs,
    page_of_questions,
    page_of_runs,
    runs_below,
    worker_of,
)
from steptrail.interfaces.http.inspector.live import hints
from steptrail.interfaces.http.inspector.minimap import minimap
from steptrail.interfaces.http.inspector.run import Asked, read_head, read_run
from steptrail.interfaces.http.inspector.state import state_at
from steptrail.interfaces.http.inspector.told import Told
from steptrail.interfaces.http.inspector.words import pretty
from steptrail.interfaces.python.explaining import Explainers
from steptrail.interfaces.python.naming import name_of, stream_named

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Pages"]

_NEVER_SECONDS = 10 * 365 * 86_400
"""Between the comments of the library: beats are hints of ours, which scripts can hear."""
_PART = 200_000
"""Characters of a large body on one page."""


@dataclass(frozen=True)
class Pages(Answering):
    """The pages that read the index and the log."""

    explainers: Explainers = field(default_factory=Explainers)

    async def live(self, request: "Request", access: Access) -> "Response":
        """Answer with hints of what has grown."""
        import anyio
        from sse_starlette import EventSourceResponse

        said = request.headers.get("last-event-id", "")
        after = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
        return EventSourceResponse(
            hints(self.trail.store, access, after),
            sep="\n",
            ping=_NEVER_SECONDS,
            shutdown_event=anyio.Event(),
            shutdown_grace_period=1,
        )

    async def overview(self, request: "Request", access: Access) -> "Response":
        """Answer with what needs somebody, and the newest runs."""
        tag = self.tag(request, await self.trail.store.last_position())
        newest = await page_of_runs(self.trail, access, IndexQuery(), limit=20)
        found = await needs(self.trail, access)
        workers = {row.stream: await worker_of(self.trail.store, row) for row in found.crashed.rows[:5]}
        return self.shown(
            request, "overview.html", tag=tag, needs=found, workers=workers, newest=newest.rows, page="overview"
        )

    async def inbox(self, request: "Request", access: Access) -> "Response":
        """Answer with what people are asked."""
        after = request.query_params.get("after")
        tag = self.tag(request, await self.trail.store.last_position())
        try:
            found = await page_of_questions(self.trail, access, after=stream_named(after) if after else None)
        except ConfigurationError:
            raise NotThere from None
        cards = [(question, self.card(question)) for question in found.questions]
        return self.shown(
            request, "inbox.html", tag=tag, cards=cards, after=found.after, is_first=not after, page="inbox"
        )

    async def run(self, request: "Request", access: Access) -> "Response":
        """Answer with the page of one run."""
        row = await self.row(request, access)
        number = request.path_params.get("ordinal")
        below = await runs_below(self.trail, access, row.stream)
        version, is_unsound = await self.trail.store.version(row.stream), self.explainers.is_unsound(row.stream)
        tag = self.tag(request, version, is_unsound, row, below)
        asked = Asked(
            execution=number,
            event=number_in(request, "e"),
            until=number_in(request, "w"),
            decision=number_in(request, "d"),
            at=number_in(request, "at"),
            since=number_in(request, "from"),
        )
        try:
            view = await read_run(
                self.trail,
                access,
                row,
                self.masking,
                store=self.store,
                asked=asked,
                explainers=self.explainers,
                below=below,
            )
        except ConfigurationError:
            raise NotThere from None
        head = view.told
        cards = [(question, self.card(question)) for question in head.questions] if head is not None else []
        others = None
        if head is not None and head.status.word == ExecutionStatus.FAILED.value:
            others = await alike(self.counting, access, row, number)
        steps = None
        if view.window.before or view.window.behind:
            steps = await minimap(self.trail, self.counting, access, row, number)
        shown: dict[str, Any] = {"run": view, "cards": cards, "number": number, "others": others, "minimap": steps}
        return self.shown(request, "run.html", tag=tag, page="run", **shown)

    async def state(self, request: "Request", access: Access) -> "Response":
        """Answer with the state of a run after an event, alone."""
        row = await self.row(request, access)
        count = await self.trail.store.version(row.stream)
        at, since = number_in(request, "at"), number_in(request, "from")
        found = await state_at(self.trail, row.stream, self.masking, count if at is None else at, count, since)
        here = f"{request.scope.get('root_path', '')}/runs/{quote(name_of(row.stream), safe='')}"
        return self.shown(request, "state.html", page="run", row=row, state=found, count=count, here=here)

    async def compare(self, request: "Request", access: Access) -> "Response":
        """Answer with two runs beside each other."""
        sides: list[tuple[str, Told | None, Side]] = []
        for key in ("a", "b"):
            named = request.query_params.get(key, "").strip()
            if not named:
                return self.shown(
                    request, "compare.html", page="run", sides=None, given=request.query_params, found=None
                )
            sides.append((named, *await self._side(named, access)))
        found = await compare(self.trail.store, self.masking, sides[0][2], sides[1][2])
        return self.shown(request, "compare.html", page="run", sides=sides, given=request.query_params, found=found)

    async def _side(self, named: str, access: Access) -> "tuple[Told | None, Side]":
        """Return the head and the place of a run that is named as `tea-77` or, with its execution, as `tea-77/2`."""
        name, _, number = named.rpartition("/")
        ordinal = int(number) if name and number.isascii() and number.isdigit() and len(number) < 10 else None
        row = await self.row_named(named if ordinal is None else name, access)
        count = await self.trail.store.version(row.stream)
        try:
            head = await read_head(self.trail, row, self.masking, self.store, ordinal, self.explainers)
        except ConfigurationError:
            raise NotThere from None
        except CorruptRecord:
            return None, Side(row.stream, 1, count)
        first = head.events.get("started", 1)
        end = head.events.get("finished", 0)
        return head, Side(row.stream, first, end if end >= first else count)

    async def body(self, request: "Request", access: Access) -> "Response":
        """Answer with one event, or a part of it, as JSON."""
        row = await self.row(request, access)
        version, path = int(request.path_params["version"]), request.query_params.get("path", "")
        start, damage, text = max(0, number_in(request, "from") or 0), None, ""
        try:
            record = await event_at(self.trail.store, row.stream, version)
            if record is None:
                raise NotThere
            value = at_path(self.masking.event(record.event), path)
            text = value if isinstance(value, str) else pretty(value)
        except LookupError:
            raise NotThere from None
        except CorruptRecord as error:
            damage = str(error)
        more = start + _PART if start + _PART < len(text) else None
        return self.shown(
            request,
            "body.html",
            row=row,
            version=version,
            path=path,
            text=text[start : start + _PART],
            length=len(text),
            start=start,
            more=more,
            damage=damage,
            page="run",
        )

    async def health(self, request: "Request", access: Access) -> "Response":
        """Answer with what can be said of the store at a glance."""
        from importlib.metadata import version

        due = await visible(self.trail.store, access, await self.trail.due(limit=PAGE))
        newest = await page_of_runs(self.trail, access, IndexQuery())
        facts: dict[str, str | int | None] = {
            "version": version("steptrail"),
            "position": await self.trail.store.last_position() if access.tenant is None else None,
            "engine": None,
        }
        try:
            views = await self.trail.views.status() if access.tenant is None else None
        except (ConfigurationError, StoreError):
            views = None
        try:
            fleet = await self.trail.fleet() if access.tenant is None else None
        except (ConfigurationError, StoreError) as error:
            fleet, facts["engine"] = None, str(error)
        damaged = [row for row in newest.rows if row.damage is not None]
        return self.shown(
            request,
            "health.html",
            page="health",
            facts=facts,
            views=views,
            fleet=fleet,
            due=due,
            damaged=damaged,
            looked=len(newest.rows),
        )
