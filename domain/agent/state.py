"""`AgentState`: a session as of one instant, immutable and cheap to hand out.

Everything it shows is folded from events. Criteria and hooks read it; the only way to change it is an event, which a
hook asks for with the methods of `HookedState`.
"""

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pydantic import JsonValue

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.fold import ExecutionFold, ForkRef, Request, SessionFold
from steptrail.domain.agent.info import StateInfo
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.step import AgentStep, OpenApproval, ToolExecution
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.instants import Datetime, seconds_between, to_datetime
from steptrail.domain.kernel.log import Log
from steptrail.domain.messages import Message
from steptrail.domain.policy.context import ErrorContext
from steptrail.domain.policy.resolver import AgentErrorContextResolver
from steptrail.domain.prices import Cost
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import ModelUsage, Usage

__all__ = ["AgentState"]

_NO_STEPS: Log[AgentStep] = Log()


class AgentState:
    """A session as of one instant.

    `as_of` is that instant, in microseconds of UTC: clocks such as `elapsed_seconds` are read at it. Limits and
    criteria look at the open execution, or at the last one when none is open.
    """

    __slots__ = ("_fold", "as_of")

    def __init__(self, fold: SessionFold, *, as_of: int) -> None:
        self._fold = fold
        self.as_of = as_of

    def at(self, now: int) -> "AgentState":
        """Return the same state looked at at another instant."""
        return AgentState(self._fold, as_of=now)

    def after_waiting(self, until: int) -> "AgentState":
        """Return the state as it would stand then if it did nothing but wait: the clock of a step stands still."""
        fold = self._fold.copied()
        if fold.step is not None:
            fold.step.stop_clock(self.as_of)
        return AgentState(fold, as_of=until)

    @property
    def fold(self) -> SessionFold:
        """The accumulator behind this state. Only `evolve` copies and fills it; nobody else may change it."""
        return self._fold

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentState) and self._fold == other._fold

    __hash__ = None  # type: ignore[assignment]  # compared by content, which cannot be hashed

    def __repr__(self) -> str:
        return (
            f"AgentState({self.agent_id!r}, version={self.version}, status={self.status.value}, "
            f"phase={self.phase.value}, step_count={self.step_count})"
        )

    @property
    def agent_id(self) -> str:
        """The session's id."""
        return self._fold.agent_id

    @property
    def forked_from(self) -> ForkRef | None:
        """The session whose past this one shares, if it was forked."""
        return self._fold.forked_from

    @property
    def parent_agent_id(self) -> str | None:
        """The session whose tool call started this one."""
        return self._fold.parent.session if self._fold.parent else None

    @property
    def parent(self) -> ParentRef | None:
        """The tool call of another session that started this one."""
        return self._fold.parent

    @property
    def name(self) -> str:
        """The agent's name when the session began."""
        return self._fold.name

    @property
    def version(self) -> int:
        """The number of events this state was folded from."""
        return self._fold.version

    @property
    def phase(self) -> Phase:
        """What the machine is in the middle of."""
        return self._fold.phase

    @property
    def status(self) -> ExecutionStatus:
        """Where the session stands."""
        return self._fold.status

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """The session's metadata."""
        return MappingProxyType(self._fold.metadata)

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, in canonical order; the system prompt is the agent's, not the session's."""
        return self._fold.messages

    @property
    def request_messages(self) -> Sequence[Sequence[Message]]:
        """The conversation as a model is shown it, in pieces: without answers that were given up for a retry."""
        messages, pieces, start = self.messages, list[Sequence[Message]](), 0
        if not self._fold.withdrawn:
            return (messages,)
        for place in sorted(self._fold.withdrawn):
            pieces.append(messages[start:place])
            start = place + 1
        return (*pieces, messages[start:])

    @property
    def message_origins(self) -> Sequence[MessageOrigin]:
        """Where each of the messages comes from, in the same order."""
        return self._fold.origins

    @property
    def started_at(self) -> Datetime:
        """When the session began; never reset."""
        return to_datetime(self._fold.created_at)

    @property
    def updated_at(self) -> Datetime:
        """When its newest event happened."""
        return to_datetime(self._fold.updated_at)

    @property
    def info(self) -> StateInfo:
        """Id, start, last change and active time, as a value that goes to and from JSON."""
        return StateInfo(
            id=self.agent_id,
            started_at=self.started_at,
            updated_at=self.updated_at,
            cumulative_execution_seconds=self.cumulative_execution_seconds,
        )

    @property
    def total_usage(self) -> Usage:
        """Tokens of every execution of the session, those of the sessions below it included."""
        return self._fold.usage

    @property
    def total_own_usage(self) -> Usage:
        """Tokens of every execution of the session, without those of the sessions below it."""
        return self._fold.usage - self._fold.usage_below

    @property
    def execution(self) -> ExecutionFold | None:
        """The open execution, or the last one, as folded."""
        return self._fold.execution

    @property
    def is_open(self) -> bool:
        """Tell whether an execution is open: started and not finished."""
        return self._fold.execution is not None and self._fold.execution.finished is None

    @property
    def execution_id(self) -> str | None:
        """The id of that execution."""
        return self._fold.execution.id if self._fold.execution else None

    @property
    def agent(self) -> AgentSnapshot | None:
        """The agent as recorded with that execution."""
        return self._fold.execution.agent if self._fold.execution else None

    @property
    def execution_started_at(self) -> Datetime | None:
        """When that execution began."""
        return to_datetime(self._fold.execution.started_at) if self._fold.execution else None

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The recorded steps of that execution."""
        return self._fold.execution.steps if self._fold.execution else _NO_STEPS

    @property
    def step_count(self) -> int:
        """How many steps of that execution are recorded."""
        return len(self.steps)

    @property
    def current_step(self) -> AgentStep | None:
        """The last recorded step of that execution."""
        return self._fold.execution.steps.last if self._fold.execution else None

    @property
    def open_step(self) -> int | None:
        """The number of the step that is open now."""
        return self._fold.step.number if self._fold.step else None

    @property
    def tool_executions(self) -> Sequence[ToolExecution]:
        """The tool calls of the open step."""
        return tuple(self._fold.step.calls) if self._fold.step else ()

    @property
    def open_approvals(self) -> tuple[OpenApproval, ...]:
        """The approvals that somebody is asked for now, with what is to run."""
        return tuple(
            OpenApproval(
                id=asked.id,
                tool=call.name,
                arguments=copy.deepcopy(call.arguments),
                digest=asked.digest,
                expires_at=to_datetime(asked.expires_at),
                asked_by=asked.asked_by,
                reason=asked.reason,
            )
            for call in self.tool_executions
            if (asked := call.open_approval) is not None
        )

    @property
    def usage(self) -> Usage:
        """Tokens of that execution, those of the sessions that its tool calls ran included."""
        return self._fold.execution.usage if self._fold.execution else Usage()

    @property
    def own_usage(self) -> Usage:
        """Tokens of that execution, without those of the sessions below it."""
        execution = self._fold.execution
        return execution.usage - execution.usage_below if execution else Usage()

    @property
    def model_name(self) -> str | None:
        """The model that the next step of that execution asks."""
        return self._fold.execution.agent.model.model if self._fold.execution else None

    @property
    def model_usage(self) -> tuple[ModelUsage, ...]:
        """Tokens of that execution's model calls, by model, in the order of their first replies."""
        return self._fold.execution.model_usage if self._fold.execution else ()

    @property
    def cost(self) -> Cost | None:
        """What that execution has cost by the prices recorded with it; None when none are."""
        return self._fold.execution.cost if self._fold.execution else None

    @property
    def elapsed_seconds(self) -> float:
        """Wall time since that execution started or was last resumed; before the first one, since the session began."""
        execution = self._fold.execution
        if execution is None:
            return seconds_between(self._fold.created_at, self.as_of) if self._fold.version else 0.0
        return execution.wall_us(self.as_of) / 1e6

    @property
    def cumulative_execution_seconds(self) -> float:
        """Active time of that execution: the time of its steps over all segments, waits and pauses left out."""
        execution, step = self._fold.execution, self._fold.step
        if execution is None:
            return 0.0
        return (execution.active_us + (step.active_us(self.as_of) if step else 0)) / 1e6

    @property
    def consecutive_failures(self) -> int:
        """How many steps in a row have failed, up to the last one whose model call was not given up."""
        return self._fold.execution.consecutive_failures if self._fold.execution else 0

    @property
    def total_failures(self) -> int:
        """How many steps of that execution have failed."""
        return self._fold.execution.total_failures if self._fold.execution else 0

    @property
    def error_context(self) -> ErrorContext:
        """What the error policy decides on: the error of the last step, and how many before it used up a retry."""
        policy = self._fold.execution.agent.error_policy if self._fold.execution else None
        return AgentErrorContextResolver(policy).resolve(self)

    @property
    def retry_is_granted(self) -> bool:
        """Tell whether the last recorded step failed and the error policy wants another try."""
        decision = self._fold.execution.decision if self._fold.execution else None
        wanted = decision is not None and decision.retries
        return wanted and self.current_step is not None and self.current_step.has_errors

    @property
    def tool_call_count(self) -> int:
        """How many tool calls that execution has started; further tries of a call are not counted."""
        return sum(self._fold.execution.tool_calls.values()) if self._fold.execution else 0

    @property
    def tool_calls_refused(self) -> int:
        """How many calls were not run because the execution had made all that it may make."""
        return self._fold.execution.tool_calls_refused if self._fold.execution else 0

    @property
    def unproductive_segments(self) -> int:
        """How many segments in a row ended without anything having been achieved in them."""
        return self._fold.execution.unproductive_segments if self._fold.execution else 0

    @property
    def has_unanswered_input(self) -> bool:
        """Tell whether the user has said something that no model call has seen yet."""
        return self._fold.execution is not None and self._fold.execution.unanswered

    @property
    def stop_request(self) -> Request | None:
        """Who asked to stop, if anybody did."""
        return self._fold.execution.stop_request if self._fold.execution else None

    @property
    def pause_request(self) -> Request | None:
        """Who asked to pause, if anybody did and it has not been done yet."""
        return self._fold.execution.pause_request if self._fold.execution else None

    @property
    def paused(self) -> Request | None:
        """Who paused the execution, and why; None while it is not paused."""
        return self._fold.execution.paused if self._fold.execution else None

    @property
    def pending_votes(self) -> tuple[ContinuationEvaluation, ...]:
        """Votes that were cast and not resolved yet."""
        return self._fold.execution.votes if self._fold.execution else ()

    @property
    def continuation_outcome(self) -> ContinuationOutcome | None:
        """The newest decision with all its votes; None while a step is open."""
        return None if self._fold.step is not None else self.last_continuation_outcome

    @property
    def last_continuation_outcome(self) -> ContinuationOutcome | None:
        """The newest decision with all its votes."""
        execution = self._fold.execution
        if execution is None or execution.decision is None:
            return None
        made = execution.decision
        return ContinuationOutcome(
            decision=made.decision,
            should_continue=made.should_continue,
            resolved_by=made.resolved_by,
            stop_reason=made.stop_reason,
            evaluations=execution.decided_votes,
        )

    @property
    def stop_reason(self) -> StopReason | None:
        """Why that execution stopped; None while it is open."""
        finished = self._fold.execution.finished if self._fold.execution else None
        return finished.stop_reason if finished else None

    @property
    def answered(self) -> bool:
        """Whether that execution has stopped with an answer of its own, also where the stop reason is a limit."""
        finished = self._fold.execution.finished if self._fold.execution else None
        return finished is not None and finished.answered

    @property
    def output(self) -> str | None:
        """The answer: the text of the last step that called no tools; None when there is none."""
        step = self.current_step
        return step.text if step is not None and not step.has_tool_calls and step.reply is not None else None
