"""Actions: what somebody says to a run from its page. Each is a command of the library, with a reason, for the record.

A form names what was shown: the question with its values and its time, or the execution and how far it was. If that is
not what there is now, nothing is done and the page says so. Nothing is run here: what is to go on is for a worker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic_core import from_json

from steptrail.domain.digests import digest_of
from steptrail.domain.errors import (
    CommandRejected,
    ConfigurationError,
    NotStorable,
    OwnershipLost,
    SessionBusy,
    stream_name,
)
from steptrail.domain.flow.events import HumanAnswered, StepAnswered, StepHeld
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.events import ApprovalDenied, ApprovalGranted
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.answering import Answering, NotThere, Refused, number_of
from steptrail.interfaces.http.inspector.forms import FormRefused, read_form
from steptrail.interfaces.http.inspector.run_pages import RunPages
from steptrail.interfaces.http.inspector.ways import shown_digest, ways_to_answer
from steptrail.interfaces.python.lists import open_questions
from steptrail.interfaces.python.steering import SteeredHandle
from steptrail.projections.questions import Question
from steptrail.runtime.agent import verdicts as agent_verdicts
from steptrail.runtime.flow import verdicts as flow_verdicts
from steptrail.runtime.kernel.first_answers import APPROVALS, first_answer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from steptrail.interfaces.python.flow import Flow
    from steptrail.interfaces.python.session import Session

_LONGEST_REASON: Final = 2_000
_STEERING: Final = ("pause", "unpause", "stop", "requeue")
_MOST_OF_A_NAME: Final = 80
_ANSWERS: Final = (*APPROVALS, HumanAnswered.TYPE, StepHeld.TYPE, StepAnswered.TYPE)


@dataclass(frozen=True)
class Acting(Answering):
    """Takes the forms of the pages. A form that is refused comes back on the page of the run, with what was typed."""

    of_runs: RunPages

    async def act(self, request: "Request", access: Access) -> "Response":
        """Do what a form says, and answer with the page of the run."""
        from starlette.responses import RedirectResponse

        if not access.may_act:
            raise NotThere
        row = await self.row(request, access)
        root, name = quote(request.scope.get("root_path", "")), stream_name(row.stream)
        try:
            form = await read_form(request, access.user)
        except FormRefused as error:
            return self.shown(request, "refused.html", error.status, said=error.said, name=name)
        try:
            name = await self._done(row, form, f"inspector:{access.user}")
        except FormRefused as error:
            refused = Refused(error.status, error.said, form)
        except (CommandRejected, NotStorable, ConfigurationError, SessionBusy, OwnershipLost) as error:
            refused = Refused(HTTPStatus.CONFLICT, self.masking.text(str(error)), form)
        else:
            return RedirectResponse(f"{root}/runs/{quote(name, safe='')}", HTTPStatus.SEE_OTHER)
        return await self.of_runs.page(request, access, await self.row(request, access), refused)

    async def _done(self, row: RunSummary, form: Mapping[str, str], by: str) -> str:
        """Do what a form says, and return the name of the run to look at then."""
        reason, do = form.get("reason", "").strip(), form.get("do", "")
        if not reason or len(reason) > _LONGEST_REASON:
            said = f"Say why, in at most {_LONGEST_REASON:,} characters: it is kept with the run."
            raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, said)
        name = stream_name(row.stream)
        handle: Any = self.trail.handle(name)
        if do == "fork" and isinstance(handle, SteeredHandle):
            return await self._forked(handle, row, form, by, reason)
        if do in _STEERING:
            await _steered(handle, row, form, by, reason)
            return name
        asked = await open_questions(self.trail.store, [row.stream], self.trail.clock.utc())
        question = next((each for each in asked if each.id == form.get("to")), None)
        if question is None or shown_digest(question) != form.get("shown"):
            first = None if question is not None else await self._first(row, form.get("to", ""))
            why = first or "it was answered, or has expired, or is asked anew"
            raise FormRefused(HTTPStatus.CONFLICT, f"This is not asked any more: {why}. Nothing was done.")
        if do not in [way.value for way in ways_to_answer(question)]:
            raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, "There is no such answer. Nothing was done.")
        await _answered(handle, question, do, form, by, reason)
        return name

    async def _first(self, row: RunSummary, to: str) -> str | None:
        """Return who has answered the question of this id, and when; None when nobody has."""
        verdicts: Any = flow_verdicts if row.stream.startswith(FLOWS) else agent_verdicts
        settled: Callable[[Any], str | None] = verdicts.verdict_on(to)

        def said(event: Any) -> str | None:
            match event:
                case StepHeld(node=node) if node == to:
                    return ""
                case StepAnswered(node=node) if node == to:
                    return "answered"
                case ApprovalGranted(approval_id=asked) | ApprovalDenied(approval_id=asked) if asked == to:
                    return "answered"
                case HumanAnswered(request_id=asked) if asked == to:
                    return "answered"
                case _:
                    return settled(event)

        return await first_answer(self.trail.store, row.stream, (*_ANSWERS, *verdicts.VERDICTS), said)

    async def _forked(self, handle: Any, row: RunSummary, form: Mapping[str, str], by: str, reason: str) -> str:
        """Fork a run after an event, and return the name of the fork. A second click leads to the same one."""
        after = form.get("after", "").strip() or form.get("at", "")
        if (at := number_of(after)) is None:
            said = "The event is a number: the fork goes on after it. Nothing was done."
            raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, said)
        once = digest_of([row.stream, by, after, form.get("once", "")])
        into = f"{row.session_id[:_MOST_OF_A_NAME]}-fork-{once[:8]}"
        stream = f"{row.kind}:{into}"
        # It is whose the run is now, so that whoever asks for it sees it.
        now = {name: value for name, value in (await handle.state()).metadata.items() if name == "tenant"}
        try:
            await handle.fork(at=at, session=into, by=by, reason=reason, metadata=now)
        except CommandRejected:
            if not await self.trail.store.index(IndexQuery(streams=[stream])):
                raise
        return stream_name(stream)


async def _steered(handle: "Session | Flow", row: RunSummary, form: Mapping[str, str], by: str, reason: str) -> None:
    shown = form.get("shown", "")
    key = digest_of([by, form["do"], shown, form.get("at", "")])
    # A second click is the same command, also where the first one has begun an execution.
    if shown != str(row.executions) and key not in (await handle.state()).fold.keys:
        said = "Another execution has begun since the page was shown. Nothing was done."
        raise FormRefused(HTTPStatus.CONFLICT, said)
    commands = {"pause": handle.pause, "unpause": handle.unpause, "stop": handle.stop, "requeue": handle.requeue}
    await commands[form["do"]](reason=reason, by=by, key=key)


async def _answered(handle: Any, question: Question, do: str, form: Mapping[str, str], by: str, reason: str) -> None:
    match question.kind:
        case "approval" if do == "approve":
            await handle.approve(question.id, by=by, reason=reason, digest=question.digest)
        case "approval":
            await handle.deny(question.id, by=by, reason=reason)
        case "external":
            answer: dict[str, Any] = {"error": reason} if do == "failed" else {"result": _json(form)}
            await handle.answer(question.id, by=by, reason=reason, **answer)
        case "step":
            action, _, target = do.partition(":")
            await handle.step(question.id, action, targets=(target,) if target else None, by=by, reason=reason)
        case "human":
            said: dict[str, Any] = {"data": _json(form)} if do == "data" else {"approved": do == "approve"}
            if do.startswith("choice:"):
                said = {"choice": do.removeprefix("choice:")}
            await handle.answer(question.id, by=by, notes=reason, digest=question.digest, **said)
        case _:
            name = "output" if question.stream.startswith(FLOWS) else "result"
            given: dict[str, Any] = {name: _json(form)} if do == "done" else {}
            given |= {"message": reason} if do == "failed" else {}
            await handle.settle(question.id, "completed" if do == "done" else do, by=by, reason=reason, **given)


def _json(form: Mapping[str, str]) -> JsonValue:
    try:
        value: JsonValue = from_json(form.get("data", ""), allow_inf_nan=False)
    except ValueError:
        raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, "The data is not JSON. Nothing was done.") from None
    return value
