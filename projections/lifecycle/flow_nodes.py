"""Nodes of workflows: a visit starts, makes tries, asks people, and ends once."""

from dataclasses import dataclass, field
from typing import Literal

from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle.base import error_text
from steptrail.projections.lifecycle.flow_runs import FlowRunEvent

AttemptOutcome = Literal["completed", "failed", "interrupted", "suspended"]
"""How a try ended. `interrupted` means that nobody knows what it did, `suspended` that the stream below it rests."""

QuestionKind = Literal["human", "approval", "step", "unknown_outcome"]
"""The kind of a question: for an answer, for a yes, how a held step goes on, what became of an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeEvent(FlowRunEvent):
    """Something that happened in a visit of a node. `visit` counts those of the node, `item` is the index in a map."""

    node: str
    visit: int
    item: int | None = None

    def _where(self) -> str:
        item = f" item {self.item}" if self.item is not None else ""
        return f"{self.node}{f' visit {self.visit}' if self.visit > 1 else ''}{item}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeStarted(FlowNodeEvent):
    """A visit began. `items` is the length of the list of a map."""

    items: int | None

    def _line(self) -> str:
        return f"node {self._where()} started"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeCompleted(FlowNodeEvent):
    """A visit succeeded. `targets` are the nodes that it chose; `item_errors` counts recorded failures of a map."""

    targets: tuple[str, ...]
    item_errors: int

    def _line(self) -> str:
        chosen = f" -> {', '.join(self.targets)}" if self.targets else ""
        return f"node {self._where()} completed{chosen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedForGood(FlowNodeEvent):
    """A visit, or one item of a map, failed for good. `rule` is the setting that decided."""

    failure: str
    error: str = field(repr=False)
    attempt: int
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeFailureRecorded(_FailedForGood):
    """A visit, or one item of a map, failed for good, and the run goes on. `rule` is the setting that decided."""

    def _line(self) -> str:
        return f"node {self._where()} failed, and the run goes on: {error_text(self.error, self.failure)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeFailed(_FailedForGood):
    """A visit failed for good, and with it the run. `rule` is the setting that decided."""

    def _line(self) -> str:
        return f"node {self._where()} failed: {error_text(self.error, self.failure)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeSkipped(FlowNodeEvent):
    """A person had a held visit skipped."""

    by: str
    reason: str | None

    def _line(self) -> str:
        return f"node {self._where()} skipped (by: {self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNodeCancelled(FlowNodeEvent):
    """A visit was given up, because the run ends."""

    reason: str

    def _line(self) -> str:
        return f"node {self._where()} cancelled ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAttemptStarted(FlowNodeEvent):
    """A try began, the `attempt`-th of its visit or item."""

    attempt: int

    def _line(self) -> str:
        return f"node {self._where()} attempt {self.attempt} started"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAttemptEnded(FlowNodeEvent):
    """A try ended. `stream` is the stream below it that rests; `usage` is what the try was billed, where it was."""

    attempt: int
    outcome: AttemptOutcome
    failure: str | None = None
    error: str | None = field(default=None, repr=False)
    stream: str | None = None
    usage: Usage | None = None
    duration_ms: int

    def _line(self) -> str:
        why = f" ({error_text(self.error, self.failure)})" if self.error is not None else ""
        return f"node {self._where()} attempt {self.attempt} {self.outcome} [{self.duration_ms}ms]{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRetryScheduled(FlowNodeEvent):
    """Try number `attempt` will be made at `due_at`, in microseconds of UTC."""

    attempt: int
    delay_seconds: float
    due_at: int

    def _line(self) -> str:
        return f"node {self._where()} attempt {self.attempt} follows in {self.delay_seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowQuestionAsked(FlowNodeEvent):
    """A person is asked. `question_id` is what the answer is given to; of a step it is the node.

    `type` says more of the kind, such as `approval` or `before`; `tool` is the tool that waits for a yes. The variables
    that are shown with a question are in the inbox, and not here. `expires_at` is in microseconds of UTC.
    """

    question_id: str
    kind: QuestionKind
    type: str | None = None
    prompt: str | None = field(default=None, repr=False)
    options: tuple[str, ...] = field(default=(), repr=False)
    tool: str | None = None
    expires_at: int | None = None

    def _line(self) -> str:
        return f"node {self._where()} asks ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowQuestionAnswered(FlowNodeEvent):
    """A question is open no more. `by` is None when nobody answered in time.

    `answer` is `answered`, `approved`, `denied`, `expired`, `settled`, or what a held step does: `continue`, `skip` or
    `abort`. What a person wrote is not told here.
    """

    question_id: str
    kind: QuestionKind
    answer: str
    by: str | None

    def _line(self) -> str:
        return f"node {self._where()}: {self.answer}{f' (by: {self.by})' if self.by is not None else ''}"
