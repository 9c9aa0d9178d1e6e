"""A try of a node that calls a model, for an answer or for a choice."""

import json
import re
from collections.abc import Mapping
from typing import cast

from steptrail.domain.base import LARGEST
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.kinds.port import NodeFault, Schemas
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import rendered, said
from steptrail.domain.flow.nodes import LlmNode, LlmRouterNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole, TextPart
from steptrail.domain.output import json_in
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage, ModelUsage
from steptrail.runtime.flow.calls.port import Failed, Outcome, Succeeded, Try, not_brought
from steptrail.runtime.kernel.asked_model import checked_reply, reply_of
from steptrail.runtime.kernel.ports import ModelDriver

_PATIENCE_SECONDS = 1.0
"""How long a driver that was cancelled may take to end."""


class LlmCall:
    """Asks a model once.

    A reply that was cut off, or has no text, is `incomplete`; one that does not fit the schema is `validation`.
    """

    def __init__(self, node: LlmNode | LlmRouterNode, code: object, seen: Seen, schemas: Schemas) -> None:
        if not hasattr(code, "infer"):
            raise not_brought(f"the model {node.model!r}", code)
        self._model, self._node, self._schemas = cast("ModelDriver", code), node, schemas
        try:
            self.model = self._model.describe().model
        except Exception as error:  # the driver brings code of its own
            raise NodeFault(FailureClass.CONFIG, f"the model {node.model!r} cannot say who it is: {error!r}") from error
        self.effect, self.usual = ToolEffect.READ, FailureClass.MODEL
        self.timeout: float | None = None
        self.patience: float | None = _PATIENCE_SECONDS
        self._messages = tuple(_messages(node, seen))
        self.given: JsonValue = [
            [message.role.value, message.text, *(part.digest for part in message.files)] for message in self._messages
        ]

    async def run(self, attempt: Try) -> Outcome:
        """Ask the model, and return its answer with what it cost."""
        request = ModelRequest(
            messages=self._messages,
            parameters=dict(self._node.parameters),
            timeout=attempt.timeout,
            read=attempt.read,
            call_index=attempt.tried,
        )
        reply = checked_reply(await reply_of(self._model, request, attempt.writer()))
        billed = BilledUsage.of(reply.usage, [ModelUsage.of_reply(self.model, reply.response_model, reply.usage)])
        if not reply.is_answer:
            how = "has no text" if reply.is_whole else "was not whole"
            why = f"the reply of {self.model} {how}: {reply.raw_finish_reason or reply.finish_reason}"
            return _failed(FailureClass.INCOMPLETE, why, billed)
        if isinstance(self._node, LlmRouterNode):
            return self._chosen(self._node, reply.text, billed)
        return self._answered(self._node, reply.text, billed)

    def _answered(self, node: LlmNode, text: str, billed: BilledUsage) -> Outcome:
        if node.schema is None:
            return _succeeded(node.output, text, billed)
        try:
            value = json_in(text)
        except ValueError as error:
            return _failed(FailureClass.VALIDATION, f"the answer is no JSON: {error}", billed)
        problems = self._schemas.problems(node.schema, value)
        if problems:
            why = f"the answer does not fit the schema: {'; '.join(problems)}"
            return _failed(FailureClass.VALIDATION, why, billed, {"problems": list(problems)})
        return _succeeded(node.output, value, billed)

    def _chosen(self, node: LlmRouterNode, text: str, billed: BilledUsage) -> Outcome:
        label, reason, confidence = _choice(text, tuple(node.routes))
        target = node.routes.get(label) if label is not None else None
        if target is None and node.default is None:
            why = f"the model named none of {', '.join(node.routes)}"
            return _failed(FailureClass.NO_MATCH, why, billed, {"said": text[:200]})
        chosen = target or node.default or ""
        route = Route(targets=(chosen,), reason=reason or (label or "default"), confidence=confidence)
        decision: dict[str, JsonValue] = {"targets": [chosen], "label": label, "reason": route.reason}
        if confidence is not None:
            decision["confidence"] = confidence
        return _succeeded(node.output, decision, billed, route)


def _messages(node: LlmNode | LlmRouterNode, seen: Seen) -> list[Message]:
    made: list[Message] = []
    if node.system is not None:
        made.append(Message.system(rendered(node.system, seen)))
    if isinstance(node, LlmRouterNode):
        labels = json.dumps(list(node.routes), ensure_ascii=False)
        how = f'Choose one of {labels}. Answer with JSON: {{"label": "...", "reason": "...", "confidence": 0.0}}'
        text, files = said(node.prompt, seen)
        made.append(Message.user(f"{text}\n\n{how}", *files))
        return made
    made += [_message(message, seen) for message in node.messages]
    if node.prompt is not None:
        text, files = said(node.prompt, seen)
        made.append(Message.user(text, *files))
    return made


def _message(given: Mapping[str, JsonValue], seen: Seen) -> Message:
    role, (text, files) = said(given.get("role", "user"), seen)[0], said(given.get("content", ""), seen)
    try:
        known = MessageRole(role)
    except ValueError:
        raise NodeFault(FailureClass.CONFIG, f"{role!r} is no role of a message") from None
    # A model takes files from the user alone, and is told of any others in words.
    return Message(role=known, parts=(TextPart(text=text), *(files if known is MessageRole.USER else ())))


def _succeeded(key: str | None, output: JsonValue, billed: BilledUsage, route: Route | None = None) -> Succeeded:
    sets: dict[str, JsonValue] = {} if key is None else {f"{key}_usage": cast("JsonValue", billed.to_dict())}
    return Succeeded(output=output, sets=sets, usage=billed, route=route)


def _failed(
    failure: FailureClass, why: str, billed: BilledUsage, details: dict[str, JsonValue] | None = None
) -> Failed:
    error = ErrorInfo(type=ErrorType.MODEL, error_class=f"steptrail:{failure.name.title()}", message=why)
    return Failed(failure=failure, error=error, details=details or {}, usage=billed)


def _choice(text: str, labels: tuple[str, ...]) -> tuple[str | None, str, float | None]:
    """Return the label that a model chose, why, and how sure it is: from its JSON, or the one label in its text."""
    try:
        said = json_in(text)
    except ValueError:
        said = None
    if isinstance(said, dict):
        label, sure, reason = said.get("label"), said.get("confidence"), said.get("reason")
        if isinstance(sure, bool) or not isinstance(sure, int | float) or abs(sure) > LARGEST:
            sure = None
        return (label if isinstance(label, str) and label in labels else None), str(reason or ""), sure
    named = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text)]
    return (named[0] if len(named) == 1 else None), "", None
