"""The pages of one run: why it stands so, its state, what is found in it, one event; and two beside each other."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from steptrail.domain.errors import ConfigurationError, CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.answering import Answering, NotThere, Refused, number_in, number_of_path
from steptrail.interfaces.http.inspector.bar_choice import SLOW
from steptrail.interfaces.http.inspector.bodies import at_path
from steptrail.interfaces.http.inspector.comparing import Side, compare
from steptrail.interfaces.http.inspector.counted import alike
from steptrail.interfaces.http.inspector.events import event_at
from steptrail.interfaces.http.inspector.finding import LONGEST_WANTED, find
from steptrail.interfaces.http.inspector.lists import PAGE, page_of_runs, runs_below
from steptrail.interfaces.http.inspector.minimap import minimap
from steptrail.interfaces.http.inspector.place import place_of
from steptrail.interfaces.http.inspector.run import RunView, end_of, explanation_of, read_run
from steptrail.interfaces.http.inspector.run_json import run_json
from steptrail.interfaces.http.inspector.state import state_at
from steptrail.interfaces.http.inspector.told import Told, told
from steptrail.interfaces.http.inspector.tree_bill import tree_bill, way_down
from steptrail.interfaces.http.inspector.ways import ways_to_steer
from steptrail.interfaces.http.inspector.words import pretty
from steptrail.interfaces.python.explaining import Explainers
from steptrail.projections.questions import Question

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_FORKS = 20
_PART = 200_000
"""Characters of a large body on one page."""


@dataclass(frozen=True)
class RunPages(Answering):
    """The pages that read one run, or two."""

    explainers: Explainers = field(default_factory=Explainers)

    async def run(self, request: "Request", access: Access) -> "Response":
        """Answer with the page of one run."""
        return await self.page(request, access, await self.row(request, access))

    async def page(
        self, request: "Request", access: Access, row: RunSummary, refused: Refused | None = None
    ) -> "Response":
        """Answer with the page of the run of a row. It says of a form of it that it was refused, if one was."""
        place = place_of(request, row)
        below, is_cut = await runs_below(self.trail, access, row.stream)
        bill = await tree_bill(self.trail, self.counting, access, row, below, is_cut=is_cut)
        version, is_unsound = await self.trail.store.version(row.stream), self.explainers.is_unsound(row.stream)
        forks = await page_of_runs(self.trail, access, IndexQuery(forked_from=[row.stream]), limit=_FORKS)
        tag = self.tag(request, version, is_unsound, row, below, bill, [each.stream for each in forks.rows])
        try:
            given = (self.trail, access, row, self.masking)
            view = await read_run(*given, store=self.store, asked=place, explainers=self.explainers)
        except ConfigurationError:
            raise NotThere from None
        head = view.told
        asked = _asked(head.questions if head is not None else (), place.asks, refused)
        cards = [(question, self.card(question)) for question in asked.shown]
        others = None
        if head is not None and head.status.word == ExecutionStatus.FAILED.value:
            others = await alike(self.counting, access, row, place.execution)
        steps = None
        if view.window.before or view.window.behind:
            steps = await minimap(self.trail, self.counting, access, row, place.execution)
        shown: dict[str, Any] = {"run": view, "below": below, "cards": cards, "others": others, "minimap": steps}
        shown |= {"bill": bill, "way": way_down(row, below), "is_cut": is_cut, "slow": SLOW, "forks": forks}
        shown |= {"asked": asked, "refused": refused, "refused_at": None, "page": "run", "here": place}
        if refused is None:
            return self.shown(request, "run.html", tag=tag, **shown)
        return self.shown(request, "run.html", refused.status, **shown | {"refused_at": _form_of(refused, view)})

    async def find(self, request: "Request", access: Access) -> "Response":
        """Answer with the events of a run in which a text stands."""
        row = await self.row(request, access)
        place, wanted = place_of(request, row), request.query_params.get("q", "").strip()
        count, found = await self.trail.store.version(row.stream), None
        if 0 < len(wanted) <= LONGEST_WANTED:
            first = max(1, min(number_in(request, "first") or 1, count))
            found = await find(self.trail.store, row.stream, self.masking, wanted, first=first, count=count)
        given: dict[str, Any] = {"row": row, "here": place, "wanted": wanted, "found": found}
        return self.shown(request, "find.html", page="run", longest=LONGEST_WANTED, **given)

    async def why(self, request: "Request", access: Access) -> "Response":
        """Answer with why a run stopped, or why it has not, as JSON."""
        from starlette.responses import Response

        row = await self.row(request, access)
        number = place_of(request, row).execution
        try:
            explanation = await explanation_of(self.trail, row, number, self.explainers)
        except ConfigurationError:
            raise NotThere from None
        said = run_json(row.stream, explanation, self.masking, self.store)
        if said["status"] == ExecutionStatus.FAILED.value:
            others = (await alike(self.counting, access, row, number)).answer
            said["sameFailure"] = None if others is None else others.to_dict()
        return Response(json.dumps(said, indent=2) + "\n", media_type="application/json")

    async def state(self, request: "Request", access: Access) -> "Response":
        """Answer with the state of a run after an event, alone."""
        row = await self.row(request, access)
        count = await self.trail.store.version(row.stream)
        at, since = number_in(request, "at"), number_in(request, "from")
        found = await state_at(self.trail, row.stream, self.masking, count if at is None else at, count, since)
        here = place_of(request, row)
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
            explanation = await explanation_of(self.trail, row, ordinal, self.explainers)
            head = told(row.stream, explanation, self.masking, self.store)
        except ConfigurationError:
            raise NotThere from None
        except CorruptRecord:
            return None, Side(row.stream, 1, count)
        first = head.explained.events.get("started", 1)
        return head, Side(row.stream, first, end_of(head, first, count))

    def _text(self, event: Event, path: str) -> str:
        value = at_path(self.masking.event(event), path)
        return value if isinstance(value, str) else pretty(value)

    async def body(self, request: "Request", access: Access) -> "Response":
        """Answer with one event, or a part of it, as JSON."""
        row = await self.row(request, access)
        version, path = number_of_path(request, "version") or 0, request.query_params.get("path", "")
        start, damage, text = max(0, number_in(request, "from") or 0), None, ""
        try:
            record = await event_at(self.trail.store, row.stream, version)
            if record is None:
                raise NotThere
            text = await asyncio.to_thread(self._text, record.event, path)
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


class _QuestionsShown(NamedTuple):
    """The open questions that a page shows, the number of the first of them, and where those before and after begin."""

    shown: Sequence[Question]
    first: int
    before: int | None
    behind: int | None


def _asked(questions: Sequence[Question], first: int | None, refused: Refused | None) -> _QuestionsShown:
    """Return the page of the questions that begins with a number, or the one with the question that was refused."""
    ids = [each.id for each in questions]
    if refused is not None and (to := refused.form.get("to")) in ids:
        first = ids.index(to) // PAGE * PAGE + 1
    first = max(1, min(first or 1, len(questions)))
    behind = first + PAGE
    return _QuestionsShown(
        questions[first - 1 : behind - 1],
        first,
        max(1, first - PAGE) if first > 1 else None,
        behind if behind <= len(questions) else None,
    )


def _form_of(refused: Refused, view: RunView) -> str | None:
    """Return which form of a page was refused: a question by its id, `steer` or `fork`; None when it has none such."""
    head, do, to = view.told, refused.form.get("do", ""), refused.form.get("to")
    if head is None:
        return None
    if to is not None:
        return to if to in [each.id for each in head.questions] else None
    if do == "fork":
        return do if view.fork_after is not None else None
    return "steer" if do in [way.value for way in ways_to_steer(head)] else None
