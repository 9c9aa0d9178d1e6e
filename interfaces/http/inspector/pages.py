"""The pages of the whole store: the overview, the inbox, the health; and the line of hints."""

import logging
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from steptrail.domain.errors import ConfigurationError, StoreError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.version import VERSION
from steptrail.interfaces.http.inspector.access import Access, access_of
from steptrail.interfaces.http.inspector.answering import Answering, Card, NotThere
from steptrail.interfaces.http.inspector.lists import needs, page_of_questions, page_of_runs, runs_due
from steptrail.interfaces.http.inspector.live import hints
from steptrail.interfaces.http.sse import event_source
from steptrail.interfaces.python.lists import states_of
from steptrail.projections.questions import Question
from steptrail.runtime.kernel.lists import growing_position
from steptrail.runtime.kernel.log_raised import log_raised

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_OF_ONE_RUN: Final = 10
"""How many questions of one run the inbox shows. The page of the run has all of them."""

_log = logging.getLogger("steptrail.inspector")


class Pages(Answering):
    """The pages that read the index and the log of all runs."""

    async def live(self, request: "Request", access: Access) -> "Response":
        """Answer with hints of what has grown, as long as the caller may see anything."""
        return event_source(lambda end: hints(self.trail.store, lambda: self.may_see(request), end))

    async def may_see(self, request: "Request") -> Access | None:
        """Return what a caller may see whose line stands; None when that cannot be told any more."""
        from starlette.exceptions import HTTPException

        try:
            return await access_of(self.authorize, request)
        except HTTPException:
            return None
        except Exception as error:  # it is a function of the user
            log_raised(_log, error, "a line of hints has ended", level=logging.ERROR)
            return None

    async def overview(self, request: "Request", access: Access) -> "Response":
        """Answer with what needs somebody, and the newest runs."""
        tag = await self.tag_of_log(request, access)
        newest = await page_of_runs(self.trail, access, IndexQuery(), limit=20)
        found = await needs(self.trail, access)
        tag = tag or self.tag(request, newest, found)
        states = await states_of(self.trail.store, found.crashed.rows[:5])
        workers = {stream: state.fold.worker for stream, state in states.items()}
        return self.shown(
            request, "overview.html", tag=tag, needs=found, workers=workers, newest=newest.rows, page="overview"
        )

    async def inbox(self, request: "Request", access: Access) -> "Response":
        """Answer with what people are asked."""
        after = request.query_params.get("after")
        tag = await self.tag_of_log(request, access)
        try:
            found = await page_of_questions(self.trail, access, after=after or None)
        except ConfigurationError:
            raise NotThere from None
        tag = tag or self.tag(request, found)
        cards, more = list[tuple[Question, Card]](), dict[str, int]()
        for stream, of_run in groupby(found.questions, key=attrgetter("stream")):
            first, rest = (asked := list(of_run))[:_OF_ONE_RUN], asked[_OF_ONE_RUN:]
            cards += [(question, self.card(question)) for question in first]
            more[stream] = len(rest)
        given: dict[str, Any] = {"cards": cards, "more": more, "after": found.after, "is_first": not after}
        return self.shown(request, "inbox.html", tag=tag, page="inbox", **given)

    async def nothing(self, request: "Request", access: Access) -> "Response":
        """Answer at an address where there is no page, as for a run that is not there."""
        raise NotThere

    async def health(self, request: "Request", access: Access) -> "Response":
        """Answer with what can be said of the store at a glance."""
        due, has_more_due = await runs_due(self.trail, access)
        newest = await page_of_runs(self.trail, access, IndexQuery())
        facts: dict[str, str | int | None] = {"version": VERSION, "position": None, "engine": None}
        views, fleet = None, None
        if access.tenant is None:
            facts["position"] = await growing_position(self.trail.store)
            with suppress(ConfigurationError, StoreError):
                views = await self.trail.views.status()
            try:
                fleet = await self.trail.fleet()
            except (ConfigurationError, StoreError) as error:
                facts["engine"] = str(error)
        damaged = [row for row in newest.rows if row.damage is not None]
        return self.shown(
            request,
            "health.html",
            page="health",
            facts=facts,
            views=views,
            fleet=fleet,
            due=due,
            has_more_due=has_more_due,
            damaged=damaged,
            looked=len(newest.rows),
        )
