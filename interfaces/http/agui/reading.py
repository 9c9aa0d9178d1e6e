"""The input of a front end, in the terms of the library: a new input, a conversation held elsewhere, or answers.

The store is the truth: of a session that is known only the newest message of the user counts. Instructions that a
client sends are left out, because only the operator may instruct the agent.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from steptrail.domain.agent.state import AgentState
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import MediaPart, Message, MessageRole, Part, TextPart, ToolCallPart, text_of
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.events import ApprovalGranted, ApprovalRequested
from steptrail.domain.storable import storable
from steptrail.interfaces.http.agui.ending import questions
from steptrail.interfaces.python.session import Session
from steptrail.runtime.kernel.json_form import to_json_value

if TYPE_CHECKING:
    from ag_ui.core import (
        AssistantMessage,
        ContentPart,
        Message as WireMessage,
        ResumeEntry,
        RunAgentInput,
        UserMessage,
    )

_LONGEST, LONGEST_ID = 500, 256
"""Characters of what a request is told, which quotes it in places, and of ids of messages and runs that are stored."""
_SCHEMA_HINT = '{"approved": true or false, "editedArgs": {...}, "reason": "..."}, the last two as you like'


class RequestRefused(Exception):
    """A request that is not carried out. `status` is that of HTTP; the message is for the client, and short."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}...")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer to an open approval. `arguments` replace the call's as a whole."""

    approval_id: str
    is_yes: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None


class Unsaid(NamedTuple):
    """A message of the user that is to be said, under the id that its client gave it."""

    id: str
    message: Message


def new_message(given: "RunAgentInput") -> Unsaid | None:
    """Return the message of the user that the input ends with; None when it ends otherwise."""
    last = given.messages[-1] if given.messages else None
    return said_in(last) if last is not None and last.role == "user" else None


def said_in(wire: "UserMessage", message: Message | None = None) -> Unsaid:
    """Return what a message of a client says, or the stored `message` under its id."""
    if not wire.id:
        raise RequestRefused(422, "the new message needs an id: a second message with the same one is not said again")
    if len(wire.id) > LONGEST_ID:
        raise RequestRefused(
            422, f"the id of a message has at most {LONGEST_ID} characters, and this one {len(wire.id):,}"
        )
    return Unsaid(wire.id, message or Message(role=MessageRole.USER, parts=tuple(_parts(wire.content))))


def parts_of(wire: "UserMessage") -> object:
    """Return what a message of the user holds, to be compared with that of another one."""
    try:
        parts = tuple(_parts(wire.content))
    except RequestRefused:
        return wire.content
    # Texts alone are shown as one, however they were sent.
    return parts if any(isinstance(part, MediaPart) for part in parts) else text_of(parts)


def history(messages: "Sequence[WireMessage]") -> tuple[Message, ...]:
    """Return a conversation that was held elsewhere: what people, the model and tools said in it."""
    tools: dict[str, str] = {}
    said: list[Message] = []
    for message in messages:
        if message.role == "user":
            said.append(Message(role=MessageRole.USER, parts=tuple(_parts(message.content))))
        elif message.role == "assistant":
            calls = tuple(_calls(message))
            tools.update((call.id, call.name) for call in calls)
            said.append(Message.assistant(message.content or "", tool_calls=calls))
        elif message.role == "tool":
            text = "".join(part.text for part in _parts(message.content) if isinstance(part, TextPart))
            name = tools.get(message.tool_call_id)
            if name is None:
                raise RequestRefused(422, f"the tool message {message.id!r} answers a call that nobody made before it")
            said.append(Message.tool(message.tool_call_id, name, text, is_error=message.error is not None))
    return tuple(said)


async def answers(
    session: Session, state: AgentState, entries: "Sequence[ResumeEntry]", *, now: int
) -> tuple[Answer, ...]:
    """Return what is still to be recorded of the answers that a client sends, in the order of the questions.

    All questions are answered at once. A client that has not seen what became of its answers sends them again: those
    alone are no new ones, whatever is asked by now and whichever run goes on. A no to what nobody is asked any more
    changes nothing. `now` is in microseconds of UTC. Raises `RequestRefused` for anything else.
    """
    asked = {approval.id: approval for _, approval in questions(state)}
    given = {entry.interrupt_id: entry for entry in entries}
    if len(given) < len(entries):
        raise RequestRefused(422, "an interrupt is answered twice in `resume`")
    past = _answered_before(state)
    others = {each: _answer(entry) for each, entry in given.items() if each not in asked}
    is_unknown = any(answer.is_yes and each not in past for each, answer in others.items())
    earlier = await _granted_earlier(session) if is_unknown else {}
    for each, answer in others.items():
        before = past.get(each) or (earlier.get(each) if answer.is_yes else None)
        if before is None:
            if answer.is_yes:
                raise RequestRefused(409, f"there is no interrupt {each!r} now: cancel it to go on")
            continue
        said = f"the interrupt {each!r} has been {before.answer} before"
        if answer.is_yes != (before.answer == "granted"):
            raise RequestRefused(409, said)
        edited = None if answer.arguments is None else digest_of(to_json_value(answer.arguments, "editedArgs"))
        if answer.is_yes and before.granted != (edited or before.digest):
            raise RequestRefused(409, f"{said}, with other arguments")
    still_open = {approval.id for approval in asked.values() if now < approval.expires_at}
    if (missing := sorted(still_open - given.keys())) and given.keys() & asked.keys():
        raise RequestRefused(
            409, f"`resume` answers all open interrupts at once; these have no answer: {', '.join(missing)}"
        )
    return tuple(_in_time([approval for approval in asked.values() if approval.id in given], given, now))


def _in_time(asked: "Any", given: "dict[str, ResumeEntry]", now: int) -> Iterator[Answer]:
    for approval in asked:
        answer = _answer(given[approval.id])
        if now < approval.expires_at:
            yield answer
        elif answer.is_yes:
            raise RequestRefused(409, f"the interrupt {approval.id!r} has expired, which is a no: cancel it to go on")


def _answer(entry: "ResumeEntry") -> Answer:
    if entry.status == "cancelled":
        return Answer(approval_id=entry.interrupt_id, is_yes=False, reason="cancelled by the front end")
    payload: object = entry.payload
    if not isinstance(payload, dict):
        raise RequestRefused(422, f"the answer to {entry.interrupt_id!r} is to be {_SCHEMA_HINT}")
    said = cast("dict[str, JsonValue]", payload)
    approved, arguments, reason = said.get("approved"), said.get("editedArgs"), said.get("reason")
    fits = isinstance(approved, bool) and isinstance(arguments, dict | None) and isinstance(reason, str | None)
    if not fits or said.keys() - {"approved", "editedArgs", "reason"}:
        raise RequestRefused(422, f"the answer to {entry.interrupt_id!r} is to be {_SCHEMA_HINT}")
    return Answer(
        approval_id=entry.interrupt_id,
        is_yes=approved is True,
        arguments=arguments if isinstance(arguments, dict) else None,
        reason=reason if isinstance(reason, str) else None,
    )


def _answered_before(state: AgentState) -> dict[str, Approval]:
    calls = [*state.tool_executions, *(call for step in state.steps for call in step.tool_executions)]
    approvals = [call.approval for call in calls if call.approval is not None]
    return {approval.id: approval for approval in approvals if not approval.is_open}


async def _granted_earlier(session: Session) -> dict[str, Approval]:
    """Return what has got its yes in any run of the session; the state holds that of the newest run alone."""
    asked, granted = dict[str, Approval](), dict[str, Approval]()
    for record in await session.history(types=(ApprovalRequested.TYPE, ApprovalGranted.TYPE)):
        if isinstance(event := record.event, ApprovalRequested):
            asked[event.approval_id] = Approval.of(event, record.at, record.version)
        elif isinstance(event, ApprovalGranted) and event.approval_id in asked:
            granted[event.approval_id] = asked[event.approval_id].with_yes(event)
    return granted


def _calls(message: "AssistantMessage") -> Iterator[ToolCallPart]:
    for call in message.tool_calls or ():
        text = call.function.arguments
        try:
            arguments: object = storable(json.loads(text) if text else {}, "arguments")
        except (ValueError, RecursionError, NotStorable):
            arguments = None
        if isinstance(arguments, dict):
            fit = cast("dict[str, JsonValue]", arguments)
            yield ToolCallPart(id=call.id, name=call.function.name, arguments=fit)
        else:
            yield ToolCallPart(id=call.id, name=call.function.name, raw=text)


def _parts(content: "str | Sequence[ContentPart]") -> Iterator[Part]:
    if isinstance(content, str):
        yield TextPart(text=content)
        return
    for part in content:
        if part.type == "text":
            yield TextPart(text=part.text)
        elif part.source.type == "url":
            yield MediaPart(uri=part.source.value, mime_type=part.source.mime_type or f"{part.type}/*")
        else:
            raise RequestRefused(422, f"{part.type} parts are taken by address: give them a `source` of type `url`")
