"""The five events as frozen slotted dataclasses; what reads and writes them is made by `plain_codec`."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from benchmarks.values.plain_codec import Least, Short
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

_Count = Annotated[int, Least(0)]
_Seconds = Annotated[float, Least(0)]
_Positive = Annotated[int, Least(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts."""

    input: _Count = 0
    output: _Count = 0
    cache_write: _Count = 0
    cache_read: _Count = 0
    reasoning: _Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What the calls of one model were billed."""

    asked_for: str
    answered_by: str | None = None
    usage: Usage = Usage()
    unmetered: _Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledUsage(Usage):
    """Token counts, and for which models."""

    models: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What model calls cost."""

    usd: Decimal
    unpriced: tuple[str, ...] = ()
    unmetered: _Count = 0
    unattributed: _Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Natural language."""

    TAG: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart:
    """The model asks for a tool."""

    TAG: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: dict[str, Any] | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPart:
    """What the model is shown of one tool call."""

    TAG: ClassVar[str] = "tool_result"
    call_id: str
    name: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPart:
    """A reference to media."""

    TAG: ClassVar[str] = "media"
    uri: str
    mime_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPart:
    """What the model showed of its reasoning."""

    TAG: ClassVar[str] = "reasoning"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationPart:
    """A source that the model names."""

    TAG: ClassVar[str] = "citation"
    uri: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    provider: str
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPart:
    """Opaque data."""

    TAG: ClassVar[str] = "provider"
    provider: str
    data: Any


Part = TextPart | ToolCallPart | ToolResultPart | MediaPart | ReasoningPart | CitationPart | ProviderPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What one model call returned."""

    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason
    raw_finish_reason: str | None = None
    usage: Usage = Usage()
    response_id: str | None = None
    response_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One criterion's vote."""

    criterion_class: Annotated[str, Short("c")]
    decision: Annotated[ContinuationDecision, Short("d")] = ContinuationDecision.ALLOW
    context: Annotated[dict[str, Any], Short("x")] = field(default_factory=dict[str, Any])
    stop_reason: Annotated[StopReason | None, Short("s")] = None
    given_reason: Annotated[str | None, Short("r")] = None
    fails: Annotated[bool, Short("f")] = False
    is_limit: Annotated[bool, Short("l")] = False
    setting: Annotated[str | None, Short("g")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceCompleted:
    """The model replied."""

    TYPE: ClassVar[str] = "inference.completed.v1"
    reply: ModelReply
    duration_seconds: _Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStarted:
    """The tool is about to run."""

    TYPE: ClassVar[str] = "tool.execution.started.v1"
    position: _Count
    call_id: str
    tool: str
    effect_id: str
    effect: ToolEffect
    attempt: _Positive = 1
    arguments_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionCompleted:
    """The tool returned."""

    TYPE: ClassVar[str] = "tool.execution.completed.v1"
    position: _Count
    result: Any = None
    duration_seconds: _Seconds = 0.0
    shown_characters: int | None = None
    settled_by: str | None = None
    usage: BilledUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationsRecorded:
    """Votes were cast."""

    TYPE: ClassVar[str] = "evaluations.recorded.v2"
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    votes: tuple[Vote, ...]
    hook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """Everything the step started has ended."""

    TYPE: ClassVar[str] = "step.completed.v1"
    number: _Positive
    duration_seconds: _Seconds
    errors: _Count = 0
    cost: Cost | None = None
