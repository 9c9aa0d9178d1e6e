"""Actions: what somebody says to a run from its page. Each is a command of the library, with a reason, for the record.

A form names what was shown: the question with its values and its time, or the execution. If that is not what there is
now, nothing is done and the page says so.
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from steptrail.domain.digests import digest_of
from steptrail.domain.errors import CommandRejected, ConfigurationError, NotStorable, OwnershipLost, SessionBusy
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.answering import Answering, NotThere
from steptrail.interfaces.http.inspector.forms import FormRefused, read_form
from steptrail.interfaces.python.lists import open_questions
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.session import Session
from steptrail.projections.questions import Question

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from steptrail.interfaces.python.flow import Flow

__all__ = ["Acting", "Way", "shown_digest", "ways_to_answer"]

_LONGEST_REASON: Final = 2_000
_STEERING: Final = ("pause", "stop")


class Way(NamedTuple):
    """A button of a question: the value that it sends, its word, and the field that it needs; None for none."""

    value: str
    word: str
    field: str | None = None


def ways_to_answer(question: Question) -> Sequence[Way]:
    """Return the buttons under a question, the careful ones first."""
    match question.kind:
        case "approval":
            return [Way("deny", "Deny"), Way("approve", "Approve")]
        case "step":
            middle = [Way("skip", "Skip it")] if question.type != "after" else []
            return [Way("abort", "Abort the run"), *middle, Way("continue", "Go on")]
        case "human":
            return _human(question)
        case _:
            tell = [Way("tell", "Tell the model that nobody knows")] if question.node is None else []
            return [
                *tell,
                Way("failed", "It failed"),
                Way("rerun", "Run it again"),
                Way("done", "It completed", "data"),
            ]


def _human(question: Question) -> Sequence[Way]:
    match question.type:
        case "approval":
            return [Way("reject", "Reject"), Way("approve", "Approve")]
        case "choice":
            return [Way(f"choice:{option}", option) for option in question.options]
        case _:
            return [Way("reject", "Reject"), Way("data", "Send", "data")]


def shown_digest(question: Question) -> str:
    """Return what a form says that was shown: a question that is asked anew has another one."""
    return digest_of([question.kind, question.id, question.digest, question.asked_at.isoformat()])


class Acting(Answering):
    """Takes the forms of the pages."""

    async def act(self, request: "Request", access: Access) -> "Response":
        """Do what a form says, and answer with the page of the run."""
        from starlette.responses import RedirectResponse

        if not access.may_act:
            raise NotThere
        row = await self.row(request, access)
        root, name = request.scope.get("root_path", ""), name_of(row.stream)
        try:
            form = await read_form(request)
            await self._done(row, form, f"inspector:{access.user}")
        except FormRefused as error:
            return self.shown(request, "refused.html", error.status, said=error.said, name=name)
        except (CommandRejected, NotStorable, ConfigurationError, SessionBusy, OwnershipLost) as error:
            said = self.masking.text(str(error))
            return self.shown(request, "refused.html", HTTPStatus.CONFLICT, said=said, name=name)
        return RedirectResponse(f"{root}/runs/{quote(name, safe='')}", HTTPStatus.SEE_OTHER)

    async def _done(self, row: RunSummary, form: Mapping[str, str], by: str) -> None:
        reason, do = form.get("reason", "").strip(), form.get("do", "")
        if not reason or len(reason) > _LONGEST_REASON:
            said = f"Say why, in at most {_LONGEST_REASON:,} characters: it is kept with the run."
            raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, said)
        handle: Any = self.trail.handle(name_of(row.stream))
        if do in _STEERING:
            await _steered(handle, row, form, by, reason)
            return
        asked = await open_questions(self.trail.store, IndexQuery(streams=[row.stream]), self.trail.clock.utc())
        question = next((each for each in asked if each.id == form.get("to")), None)
        if question is None or shown_digest(question) != form.get("shown"):
            said = "This is not asked any more: it was answered, or has expired, or is asked anew. Nothing was done."
            raise FormRefused(HTTPStatus.CONFLICT, said)
        if do not in [way.value for way in ways_to_answer(question)]:
            raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, "There is no such answer. Nothing was done.")
        await _answered(handle, question, do, form, by, reason)


async def _steered(handle: "Session | Flow", row: RunSummary, form: Mapping[str, str], by: str, reason: str) -> None:
    if form.get("shown") != str(row.executions):
        said = "Another execution has begun since the page was shown. Nothing was done."
        raise FormRefused(HTTPStatus.CONFLICT, said)
    # A second click is the same command.
    key = f"{by} {form['do']} {row.executions} {form.get('at', '')}"[:200]
    if form["do"] == "pause":
        await handle.pause(reason=reason, by=by, key=key)
    else:
        await handle.stop(reason=reason, by=by, key=key)


async def _answered(handle: Any, question: Question, do: str, form: Mapping[str, str], by: str, reason: str) -> None:
    match question.kind:
        case "approval" if do == "approve":
            await handle.approve(question.id, by=by, reason=reason, digest=question.digest)
        case "approval":
            await handle.deny(question.id, by=by, reason=reason)
        case "step":
            await handle.step(question.id, do, by=by, reason=reason)
        case "human":
            said: dict[str, Any] = {"data": _json(form)} if do == "data" else {"approved": do == "approve"}
            if do.startswith("choice:"):
                said = {"choice": do.removeprefix("choice:")}
            await handle.answer(question.id, by=by, notes=reason, digest=question.digest, **said)
        case _:
            name = "output" if question.stream.startswith(FLOWS) else "result"
            given: dict[str, Any] = {name: _json(form)} if do == "done" else {}
            given |= {"message": reason} if do == "failed" else {}
            await handle.settle(question.id, "completed" if do == "done" else do, by=by, **given)


def _json(form: Mapping[str, str]) -> JsonValue:
    try:
        value: JsonValue = json.loads(form.get("data", ""), parse_constant=_refused)
    except (ValueError, RecursionError):
        raise FormRefused(HTTPStatus.UNPROCESSABLE_ENTITY, "The data is not JSON. Nothing was done.") from None
    return value


def _refused(constant: str) -> None:
    raise ValueError(constant)
