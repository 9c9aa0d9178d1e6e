"""The pages, each an answer to one request: the overview, the lists, one run, one body, the health."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from steptrail.domain.digests import digest_of
from steptrail.domain.errors import ConfigurationError, CorruptRecord, SessionNotFound, StoreError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.cli.going_on import answers_to
from steptrail.interfaces.http.inspector.access import Access, Authorize, access_of, visible
from steptrail.interfaces.http.inspector.bodies import LARGE, at_path
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
from steptrail.interfaces.http.inspector.masking import Masking
from steptrail.interfaces.http.inspector.run import Asked, read_run
from steptrail.interfaces.http.inspector.words import pretty
from steptrail.interfaces.python.explaining import Explainers
from steptrail.interfaces.python.naming import name_of, stream_named
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.questions import Question

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Pages"]

_log = logging.getLogger("steptrail.inspector")

_WAITS = ("approval", "human", "step", "unknown_outcome", "child", "retry", "tool_retry", "node_retry", "resources")
_NEVER_SECONDS = 10 * 365 * 86_400
"""Between the comments of the library: beats are hints of ours, which scripts can hear."""
_PART = 200_000
"""Characters of a large body on one page."""


class _Unchanged(Exception):
    """The caller has the page as it is."""


class _NotThere(Exception):
    """There is nothing here, or nothing that the caller may see."""


@dataclass(frozen=True)
class Pages:
    """The pages of one store. `store` is the address that commands have to name; None where they need none."""

    trail: Steptrail
    authorize: Authorize
    masking: Masking
    templates: "Environment"
    store: str | None = None
    explainers: Explainers = field(default_factory=Explainers)

    def answer(
        self, page: "Callable[[Request, Access], Awaitable[Response]]"
    ) -> "Callable[[Request], Awaitable[Response]]":
        """Return the endpoint of a page. A no and a missing run are one answer."""

        async def answered(request: "Request") -> "Response":
            from starlette.responses import Response

            try:
                access = await access_of(self.authorize, request)
                if access is None:
                    raise _NotThere
                return await page(request, access)
            except _Unchanged:
                return Response(status_code=HTTPStatus.NOT_MODIFIED)
            except (_NotThere, SessionNotFound):
                return self._shown(request, "missing.html", HTTPStatus.NOT_FOUND)
            except StoreError as error:
                _log.warning("a page could not be made: %s", error)
                said = self.masking.text(str(error))
                return self._shown(request, "trouble.html", HTTPStatus.SERVICE_UNAVAILABLE, said=said)
            except Exception:
                _log.exception("a page could not be made")
                said = "The page could not be made; the log of the inspector says why."
                return self._shown(request, "trouble.html", HTTPStatus.INTERNAL_SERVER_ERROR, said=said)

        return answered

    def _shown(
        self,
        request: "Request",
        template: str,
        status: HTTPStatus = HTTPStatus.OK,
        tag: str | None = None,
        **values: Any,
    ) -> "Response":
        from starlette.responses import HTMLResponse

        text = self.templates.get_template(template).render(
            root=request.scope.get("root_path", ""), now=self.trail.clock.utc(), masking=self.masking, tag=tag, **values
        )
        return HTMLResponse(text, status, None if tag is None else {"etag": tag})

    def _tag(self, request: "Request", *parts: object) -> str:
        """Return the tag of a page that is made of these parts. Raises `_Unchanged` for a caller that has it."""
        minute = self.trail.clock.utc() // 60_000_000  # with it all that a page says of times grows old
        tag = f'"{digest_of([request.url.query, minute, *map(str, parts)])}"'
        if request.headers.get("if-none-match") == tag:
            raise _Unchanged
        return tag

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
        tag = self._tag(request, await self.trail.store.last_position())
        newest = await page_of_runs(self.trail, access, IndexQuery(), limit=20)
        found = await needs(self.trail, access)
        workers = {row.stream: await worker_of(self.trail.store, row) for row in found.crashed.rows[:5]}
        return self._shown(
            request, "overview.html", tag=tag, needs=found, workers=workers, newest=newest.rows, page="overview"
        )

    async def runs(self, request: "Request", access: Access) -> "Response":
        """Answer with a page of runs; the filters are those of the address."""
        said = {key: value for key, value in request.query_params.items() if value and len(value) <= 200}
        if any("\0" in value for value in said.values()):
            raise _NotThere  # no server takes it in a text
        try:
            asked = IndexQuery(
                status=said.get("status"),
                stop_reason=said.get("stop_reason"),
                name=said.get("agent"),
                waits_for=(said["waits_for"],) if "waits_for" in said else None,
                parents=(stream_named(said["parent"]),) if "parent" in said else None,
                after=stream_named(said["after"]) if "after" in said else None,
            )
        except ConfigurationError:
            raise _NotThere from None
        tag = self._tag(request, await self.trail.store.last_position())
        found = await page_of_runs(self.trail, access, asked)
        filters = {key: said[key] for key in ("status", "stop_reason", "agent", "waits_for", "parent") if key in said}
        return self._shown(
            request,
            "runs.html",
            tag=tag,
            page="runs",
            found=found,
            filters=filters,
            is_first="after" not in said,
            choices={"status": list(ExecutionStatus), "stop_reason": list(StopReason), "waits_for": _WAITS},
        )

    async def inbox(self, request: "Request", access: Access) -> "Response":
        """Answer with what people are asked."""
        after = request.query_params.get("after")
        tag = self._tag(request, await self.trail.store.last_position())
        try:
            found = await page_of_questions(self.trail, access, after=stream_named(after) if after else None)
        except ConfigurationError:
            raise _NotThere from None
        cards = [(question, self._ways(question)) for question in found.questions]
        return self._shown(
            request, "inbox.html", tag=tag, cards=cards, after=found.after, is_first=not after, page="inbox"
        )

    async def run(self, request: "Request", access: Access) -> "Response":
        """Answer with the page of one run."""
        row = await self._row(request, access)
        number = request.path_params.get("ordinal")
        below = await runs_below(self.trail, access, row.stream)
        tag = self._tag(request, await self.trail.store.version(row.stream), row, below)
        asked = Asked(
            execution=number,
            event=_number(request, "e"),
            until=_number(request, "w"),
            decision=_number(request, "d"),
            at=_number(request, "at"),
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
            raise _NotThere from None
        cards = [(question, self._ways(question)) for question in view.told.questions] if view.told is not None else []
        return self._shown(request, "run.html", tag=tag, run=view, cards=cards, page="run", number=number)

    async def body(self, request: "Request", access: Access) -> "Response":
        """Answer with one event, or a part of it, as JSON."""
        row = await self._row(request, access)
        version, path = int(request.path_params["version"]), request.query_params.get("path", "")
        start, damage, text = max(0, _number(request, "from") or 0), None, ""
        try:
            record = await event_at(self.trail.store, row.stream, version)
            if record is None:
                raise _NotThere
            value = at_path(self.masking.event(record.event), path)
            text = value if isinstance(value, str) else pretty(value)
        except LookupError:
            raise _NotThere from None
        except CorruptRecord as error:
            damage = str(error)
        more = start + _PART if start + _PART < len(text) else None
        return self._shown(
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
        facts = {
            "version": version("steptrail"),
            "position": await self.trail.store.last_position() if access.tenant is None else None,
        }
        damaged = [row for row in newest.rows if row.damage is not None]
        return self._shown(
            request, "health.html", page="health", facts=facts, due=due, damaged=damaged, looked=len(newest.rows)
        )

    async def _row(self, request: "Request", access: Access) -> RunSummary:
        """Return the row of the run that the address names, if the caller may see it."""
        try:
            stream = stream_named(request.path_params["session"])
        except ConfigurationError:
            raise _NotThere from None
        found = await page_of_runs(self.trail, access, IndexQuery(streams=[stream]), limit=1)
        if not found.rows:
            raise _NotThere
        return found.rows[0]

    def _ways(self, question: Question) -> "Card":
        arguments = None if question.arguments is None else dict(question.arguments)
        data = dict(question.data) if question.data else None
        shown = self.masking.value(arguments if arguments is not None else data)
        return Card(
            name=name_of(question.stream),
            values=None if shown is None else pretty(shown),
            is_large=shown is not None and len(pretty(shown)) > LARGE,
            prompt=None if question.prompt is None else self.masking.text(question.prompt),
            reason=None if question.reason is None else self.masking.text(question.reason),
            commands=answers_to(question, store=self.store),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A question as a page shows it: its values as they may be shown, and the commands that answer it."""

    name: str
    values: str | None
    is_large: bool
    prompt: str | None
    reason: str | None
    commands: "Any"


def _number(request: "Request", name: str) -> int | None:
    said = request.query_params.get(name, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
