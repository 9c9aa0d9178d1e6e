"""The five events as `msgspec.Struct`: built without a look at the values, checked when they are read."""

from decimal import Decimal
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.inference import FinishReason
from steptrail.domain.shared.run import StopReason
from steptrail.domain.tools import ToolEffect

__all__ = [
    "BilledUsage",
    "Cost",
    "EvaluationsRecorded",
    "InferenceCompleted",
    "ModelReply",
    "StepCompleted",
    "TextPart",
    "ToolCallPart",
    "ToolExecutionCompleted",
    "ToolExecutionStarted",
    "Usage",
    "Vote",
]

_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]


class _Value(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class Usage(_Value, frozen=True, kw_only=True):
    """Token counts."""

    input: _Count = 0
    output: _Count = 0
    cache_write: _Count = 0
    cache_read: _Count = 0
    reasoning: _Count = 0


class ModelUsage(_Value, frozen=True, kw_only=True):
    """What the calls of one model were billed."""

    asked_for: str
    answered_by: str | None = None
    usage: Usage = Usage()
    unmetered: _Count = 0


class BilledUsage(Usage, frozen=True, kw_only=True):
    """Token counts, and for which models."""

    models: tuple[ModelUsage, ...] = ()


class Cost(_Value, frozen=True, kw_only=True):
    """What model calls cost."""

    usd: Decimal
    unpriced: tuple[str, ...] = ()
    unmetered: _Count = 0
    unattributed: _Count = 0


class _Part(_Value, frozen=True, tag_field="kind"):
    pass


class TextPart(_Part, tag="text", frozen=True, kw_only=True):
    """Natural language."""

    text: str


class ToolCallPart(_Part, tag="tool_call", frozen=True, kw_only=True):
    """The model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    raw: str | None = None


class ToolResultPart(_Part, tag="tool_result", frozen=True, kw_only=True):
    """What the model is shown of one tool call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


class MediaPart(_Part, tag="media", frozen=True, kw_only=True):
    """A reference to media."""

    uri: str
    mime_type: str


class ReasoningPart(_Part, tag="reasoning", frozen=True, kw_only=True):
    """What the model showed of its reasoning."""

    text: str
    signature: str | None = None


class CitationPart(_Part, tag="citation", frozen=True, kw_only=True):
    """A source that the model names."""

    uri: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    provider: str
    data: Any = None


class ProviderPart(_Part, tag="provider", frozen=True, kw_only=True):
    """Opaque data."""

    provider: str
    data: Any


Part = TextPart | ToolCallPart | ToolResultPart | MediaPart | ReasoningPart | CitationPart | ProviderPart


class ModelReply(_Value, frozen=True, kw_only=True):
    """What one model call returned."""

    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason
    raw_finish_reason: str | None = None
    usage: Usage = Usage()
    response_id: str | None = None
    response_model: str | None = None


_SHORT = {
    "criterion_class": "c",
    "decision": "d",
    "context": "x",
    "stop_reason": "s",
    "given_reason": "r",
    "fails": "f",
    "is_limit": "l",
    "setting": "g",
}


class Vote(_Value, rename=_SHORT, frozen=True, kw_only=True):
    """One criterion's vote."""

    criterion_class: str
    decision: ContinuationDecision = ContinuationDecision.ALLOW
    context: dict[str, Any] = {}
    stop_reason: StopReason | None = None
    given_reason: str | None = None
    fails: bool = False
    is_limit: bool = False
    setting: str | None = None


class _Event(_Value, frozen=True):
    TYPE: ClassVar[str]


class InferenceCompleted(_Event, frozen=True, kw_only=True):
    """The model replied."""

    TYPE = "inference.completed.v1"
    reply: ModelReply
    duration_seconds: _Seconds


class ToolExecutionStarted(_Event, frozen=True, kw_only=True):
    """The tool is about to run."""

    TYPE = "tool.execution.started.v1"
    position: _Count
    call_id: str
    tool: str
    effect_id: str
    effect: ToolEffect
    attempt: _Positive = 1
    arguments_digest: str


class ToolExecutionCompleted(_Event, frozen=True, kw_only=True):
    """The tool returned."""

    TYPE = "tool.execution.completed.v1"
    position: _Count
    result: Any = None
    duration_seconds: _Seconds = 0.0
    shown_characters: int | None = None
    settled_by: str | None = None
    usage: BilledUsage | None = None


class EvaluationsRecorded(_Event, frozen=True, kw_only=True):
    """Votes were cast."""

    TYPE = "evaluations.recorded.v2"
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    votes: tuple[Vote, ...]
    hook: str | None = None


class StepCompleted(_Event, frozen=True, kw_only=True):
    """Everything the step started has ended."""

    TYPE = "step.completed.v1"
    number: _Positive
    duration_seconds: _Seconds
    errors: _Count = 0
    cost: Cost | None = None
