"""The stored conversation as messages of AG-UI, under ids that are the same live, after a reload and in any process.

A client tells calls apart by their id over the whole conversation, and models number theirs anew in each reply: the
first call of an id keeps it, a later one is named after its place. Instructions of the operator are not shown.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from steptrail.domain.agent.ids import SessionId, effect_id, execution_id
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorType
from steptrail.domain.messages import MediaPart, Message, MessageRole, TextPart, ToolCallPart, ToolResultPart
from steptrail.interfaces.http.agui.config import AguiConfig
from steptrail.projections.serialization.messages import UNFIT_ARGUMENTS
from steptrail.projections.ui.ids import reply_id, said_id

if TYPE_CHECKING:
    from ag_ui.core import ContentPart, Message as WireMessage, ToolCall, ToolMessage, UserMessage

_SHOWN_BY_BOTH = frozenset({"user", "assistant", "tool"})


class Conversation:
    """Turns the messages of one session into those of AG-UI, one after the other and each once."""

    def __init__(self, session: str, config: AguiConfig) -> None:
        self._session, self._config = session, config
        self._said = 0
        self._taken: set[str] = set()
        self._calls: tuple[str, ...] = ()
        self._said_calls: dict[str, str] = {}

    def message(self, message: Message, origin: MessageOrigin) -> "WireMessage | None":
        """Return the next message as a front end sees it; None when it shows none."""
        from ag_ui.core import AssistantMessage

        if origin.output:
            return None  # the model was asked for its answer in the right form
        if origin.step is None:
            self._said += 1
        execution = execution_id(SessionId(self._session), origin.execution)
        shown_as = reply_id(execution, origin.step) if origin.step is not None else said_id(self._session, self._said)
        match message.role:
            case MessageRole.SYSTEM | MessageRole.DEVELOPER:
                return None
            case MessageRole.USER:
                return _user(shown_as, message)
            case MessageRole.TOOL:
                return self.answer(message, origin)
            case MessageRole.ASSISTANT:
                calls = self._asked(message.tool_calls, shown_as, origin)
                if not calls and not message.text:
                    return None
                return AssistantMessage(id=shown_as, content=message.text or None, tool_calls=calls or None)

    def answer(self, message: Message, origin: MessageOrigin) -> "ToolMessage":
        """Return the message that answers a call of the newest reply, now or when its step is completed."""
        from ag_ui.core import ToolMessage

        part = next((part for part in message.parts if isinstance(part, ToolResultPart)), None)
        raw_id = part.call_id if part is not None else ""
        if origin.step is not None and origin.position is not None:
            execution = execution_id(SessionId(self._session), origin.execution)
            shown_as = str(effect_id(execution, origin.step, origin.position))
            call_id = self.call_id(origin.position)
        else:
            shown_as, call_id = said_id(self._session, self._said), self._said_calls.get(raw_id, raw_id)
        text = part.text if part is not None else message.text
        quotes = origin.error_type is ErrorType.VALIDATION
        if quotes and not self._config.shows_arguments_of(part.name if part is not None else ""):
            text = UNFIT_ARGUMENTS
        return ToolMessage(id=shown_as, content=text, tool_call_id=call_id)

    def call_id(self, position: int) -> str:
        """Return the id under which a call of the newest reply is known to front ends."""
        return self._calls[position]

    def _asked(self, calls: Sequence[ToolCallPart], message_id: str, origin: MessageOrigin) -> "list[ToolCall]":
        from ag_ui.core import FunctionCall, ToolCall

        ids: list[str] = []
        for position, call in enumerate(calls):
            is_new = bool(call.id) and call.id not in self._taken
            ids.append(call.id if is_new else f"{message_id}:{position}")
            self._taken.add(ids[-1])
        if origin.step is not None:
            self._calls = tuple(ids)
        else:
            self._said_calls.update(zip([call.id for call in calls], ids, strict=True))
        return [
            ToolCall(id=wire, function=FunctionCall(name=call.name, arguments=self._arguments(call)))
            for call, wire in zip(calls, ids, strict=True)
        ]

    def _arguments(self, call: ToolCallPart) -> str:
        if not self._config.shows_arguments_of(call.name):
            return ""
        if call.arguments is None:
            return call.raw or ""
        return json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def has_ended(call: ToolExecution) -> bool:
    """Tell whether what the model is shown of a call of the open step is known and will stay so."""
    # Who ran an interrupted call may still say how it ended, until the step is completed.
    return call.is_over and call.status is not CallStatus.INTERRUPTED


def wire_messages(
    state: AgentState, config: AguiConfig, *, queued: int | None = None
) -> "tuple[list[WireMessage], Conversation]":
    """Return all that a front end shows of the conversation as it stands, and where it goes on.

    Calls of the open step that have ended are answered in it already, and what was said meanwhile stands behind them,
    or the first `queued` messages of it.
    """
    told = Conversation(state.agent_id, config)
    shown = [told.message(*each) for each in zip(state.messages, state.message_origins, strict=True)]
    if (step := state.fold.step) is not None:
        for call in filter(has_ended, step.calls):
            origin = origin_of_call(call, at=state.as_of, execution=state.fold.executions, step=step.number)
            shown.append(told.answer(call.message(), origin))
        shown += [told.message(*each) for each in zip(step.queued[:queued], step.queued_origins[:queued], strict=True)]
    return [message for message in shown if message is not None], told


def is_shown(state: AgentState, message_id: str) -> bool:
    """Tell whether this is the id under which a message that somebody said is shown here."""
    return message_id in said_origins(state)


def said_origins(state: AgentState) -> dict[str, MessageOrigin]:
    """Return the origins of what was said in a session, each by the id under which the message is shown."""
    step = state.fold.step
    origins = (*state.message_origins, *(step.queued_origins if step is not None else ()))
    said = [origin for origin in origins if origin.step is None and not origin.output]
    return {said_id(state.agent_id, ordinal): origin for ordinal, origin in enumerate(said, 1)}


def is_of_our_form(session: str, message_id: str) -> bool:
    """Tell whether an id is one that a message of the session has, or may have one day."""
    return message_id.startswith(f"{session}:")


def ids_kept(ours: "Sequence[WireMessage]", theirs: "Sequence[WireMessage]", session: str) -> Mapping[str, str]:
    """Return the ids that a client has given to messages of ours: those that say the same at the same place.

    A client that were sent its own message under another id would move it to the end. An id of our form that is not
    ours is that of a session of this name which was erased: a later message of ours may need it.
    """
    known = [message for message in theirs if message.role in _SHOWN_BY_BOTH]
    kept: dict[str, str] = {}
    for our, their in zip(ours, known, strict=False):
        if _said_in(our) != _said_in(their):
            break
        if not is_of_our_form(session, their.id):
            kept[our.id] = their.id
    return kept


def _said_in(message: "WireMessage") -> tuple[str, object, tuple[str, ...], str | None]:
    content = getattr(message, "content", None)
    # A client may add to a message of the user whatever it likes, also under this name.
    calls = tuple(call.id for call in message.tool_calls or ()) if message.role == "assistant" else ()
    return message.role, content or None, calls, getattr(message, "tool_call_id", None)


def _user(message_id: str, message: Message) -> "UserMessage":
    from ag_ui.core import UserMessage

    parts = [_part(part) for part in message.parts if isinstance(part, TextPart | MediaPart)]
    is_plain = not any(isinstance(part, MediaPart) for part in message.parts)
    return UserMessage(id=message_id, content=message.in_words if is_plain else parts)


def _part(part: TextPart | MediaPart) -> "ContentPart":
    from ag_ui.core import AudioPart, DocumentPart, ImagePart, TextPart as WireText, UrlSource, VideoPart

    if isinstance(part, TextPart):
        return WireText(text=part.text)
    source = UrlSource(value=part.uri, mime_type=part.mime_type)
    kinds: Mapping[str, Callable[..., ContentPart]] = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}
    return kinds.get(part.mime_type.partition("/")[0], DocumentPart)(source=source)
