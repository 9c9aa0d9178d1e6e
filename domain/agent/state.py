"""`AgentState`: a session as of one instant, immutable and cheap to hand out.

All its values are folded from events. Criteria and hooks read it. Only an event can change it; hooks make such events
with the methods of `HookedState`.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import ModelSwitched
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.info import StateInfo
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.request_view import rest_begins_at, shown_before
from steptrail.domain.agent.shortened import Compacted
from steptrail.domain.agent.step import AgentStep, OpenApproval, OpenCall, ToolExecution
from steptrail.domain.agent.waiting import is_sat_out
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.copies import own
from steptrail.domain.instants import Datetime, seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.log import Log
from steptrail.domain.messages import Message
from steptrail.domain.output import OutputVerdict
from steptrail.domain.policy.context import ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.resolver import AgentErrorContextResolver
from steptrail.domain.shared.state import StreamState
from steptrail.domain.tools import ToolSpec, result_text
from steptrail.domain.usage import ModelUsage, Usage

_NO_STEPS: Log[AgentStep] = Log()


class AgentState(StreamState[SessionFold]):
    """A session as of one instant.

    `as_of` is that instant, in microseconds of UTC; clocks such as `elapsed_seconds` are read at it. "That execution"
    is the open one, or the last one when none is open. Limits and criteria look at that execution.
    """

    __slots__ = ()

    def at(self, now: int) -> "AgentState":
        """Return the same state as of the instant `now`."""
        return AgentState(self._fold, as_of=now)

    def after_waiting(self, until: int) -> "AgentState":
        """Return the state as it will be at `until` if the run only waits. The clock of an open step stands still."""
        fold = self._fold.copied()
        if fold.step is not None:
            fold.step.clock = fold.step.clock.stopped(self.as_of)
        return AgentState(fold, as_of=until)

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
    def parent_agent_id(self) -> str | None:
        """The id of the session whose tool call started this one; None when no tool call did."""
        return self._fold.parent.session if self._fold.parent else None

    @property
    def phase(self) -> Phase:
        """The phase of the session."""
        return self._fold.phase

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, in canonical order. The system prompt belongs to the agent and is not in it."""
        return self._fold.messages

    @property
    def messages_so_far(self) -> Iterator[Message]:
        """The conversation, and what the open step adds: outcomes of calls that are over, and what was said since."""
        yield from self.messages
        yield from (call.message() for call in self.tool_executions if call.is_over)
        yield from self._fold.step.queued if self._fold.step else ()

    @property
    def request_messages(self) -> Sequence[Sequence[Message]]:
        """The conversation as it is shown to a model, in pieces: what is shown otherwise than it is stored, the rest.

        Answers that were given up for a retry are left out, and so are earlier calls and results where the agent says
        so. Of a conversation that was compacted it is the summary, what is kept beside it, and what follows.
        """
        fold, execution = self._fold, self._fold.execution
        if execution is None or not (start := rest_begins_at(fold, execution.agent)):
            return (fold.messages,)
        return (tuple(shown_before(fold, start, execution.agent)), fold.messages[start:])

    @property
    def message_origins(self) -> Sequence[MessageOrigin]:
        """The origin of each of the messages, in the same order."""
        return self._fold.origins

    @property
    def updated_at(self) -> Datetime:
        """The time of the newest event."""
        return to_datetime(self._fold.updated_at)

    @property
    def info(self) -> StateInfo:
        """A summary of the session: id, start, last change and active time."""
        return StateInfo(
            id=self.agent_id,
            started_at=self.started_at,
            updated_at=self.updated_at,
            cumulative_execution_seconds=self.cumulative_execution_seconds,
        )

    @property
    def total_usage(self) -> Usage:
        """The tokens of all executions of the session, including the sessions below it."""
        return self._fold.usage

    @property
    def execution(self) -> ExecutionFold | None:
        """The accumulator of that execution; None before the first one."""
        return self._fold.execution

    @property
    def agent(self) -> AgentSnapshot | None:
        """The agent as recorded with that execution; None before the first one."""
        return self._fold.execution.agent if self._fold.execution else None

    @property
    def context(self) -> JsonValue:
        """The JSON of what was said of that execution when it began, or on a resume; None when nothing was said."""
        return self._fold.execution.context if self._fold.execution else None

    @property
    def data(self) -> Any:
        """The context as a value of the agent's type, for code that a run calls. Elsewhere the same as `context`."""
        return self.context

    @property
    def execution_started_at(self) -> Datetime | None:
        """The time at which that execution began; None before the first one."""
        return to_datetime(self._fold.execution.started_at) if self._fold.execution else None

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The recorded steps of that execution."""
        return self._fold.execution.steps if self._fold.execution else _NO_STEPS

    @property
    def step_count(self) -> int:
        """The number of recorded steps of that execution."""
        return len(self.steps)

    @property
    def current_step(self) -> AgentStep | None:
        """The last recorded step of that execution; None before its first one."""
        return self._fold.execution.steps.last if self._fold.execution else None

    @property
    def open_step(self) -> int | None:
        """The number of the open step; None when no step is open."""
        return self._fold.step.number if self._fold.step else None

    @property
    def tool_executions(self) -> Sequence[ToolExecution]:
        """The tool calls of the open step."""
        return tuple(self._fold.step.calls) if self._fold.step else ()

    @property
    def open_approvals(self) -> tuple[OpenApproval, ...]:
        """The approvals that people are asked for at `as_of`, each with the tool and its arguments."""
        return tuple(
            OpenApproval(
                id=asked.id,
                tool=call.name,
                arguments=own(call.arguments),
                digest=asked.digest,
                expires_at=to_datetime(asked.expires_at),
                asked_by=asked.asked_by,
                reason=asked.reason,
            )
            for call in self.tool_executions
            if (asked := call.open_approval) is not None and self.as_of < asked.expires_at
        )

    @property
    def open_calls(self) -> tuple[OpenCall, ...]:
        """The external calls for whose results somebody is asked at `as_of`."""
        return tuple(
            OpenCall(
                id=call.effect_id or "",
                tool=call.name,
                arguments=own(call.arguments),
                expires_at=to_datetime(asked.expires_at),
            )
            for call in self.tool_executions
            if (asked := call.open_deferral) is not None and self.as_of < asked.expires_at
        )

    @property
    def external_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that were given for that execution alone, beside those of its agent."""
        execution = self._fold.execution
        return execution.external_tools if execution else ()

    @property
    def own_usage(self) -> Usage:
        """The tokens of that execution, without the sessions that its tool calls ran."""
        execution = self._fold.execution
        return execution.usage - execution.usage_below if execution else Usage()

    @property
    def model_name(self) -> str | None:
        """The name of the model that its next step asks; None before the first one."""
        if (switch := self.switch_due) is not None:
            return switch.to_model
        return self._fold.execution.agent.model.model if self._fold.execution else None

    @property
    def switch_due(self) -> ModelSwitched | None:
        """The switch to the next model that comes with the decision, if the run goes on; None when none is due."""
        execution = self._fold.execution
        fallback = execution.agent.fallback if execution is not None else None
        if execution is None or fallback is None or not (failures := fallback.failures(self)):
            return None
        error = next(step for step in reversed(self.steps) if step.has_errors).errors[0].error
        policy = execution.agent.error_policy
        tries = self.error_context.consecutive_failures or self.consecutive_failures  # the former is 0 in an open step
        longest = error.retry_after or 0.0
        if policy.handling_for(error.type) is not ErrorHandlingDecision.IGNORE:  # no wait follows that one
            longest = policy.backoff.delay(tries, 0.0, error.retry_after)  # without what jitter takes off
        if failures < fallback.after and is_sat_out(execution, self.as_of + round(longest * 1e6), self.as_of):
            return None
        return ModelSwitched(
            step=self.step_count,
            from_model=execution.agent.model.model,
            to_model=fallback.models[0].model.model,
            error_type=error.type,
            failures=failures,
        )

    @property
    def switches(self) -> tuple[ModelSwitched, ...]:
        """The switches of that execution to other models."""
        return self._fold.execution.switches if self._fold.execution else ()

    @property
    def instructions(self) -> Mapping[str, str]:
        """The newest texts of the agent's instructions, by the name of their function. An empty one is left out."""
        return MappingProxyType(self._fold.instructions)

    @property
    def context_tokens(self) -> int:
        """The tokens of the last request, as its provider said; 0 when that is not known, as after a compaction."""
        return self._fold.context_tokens

    @property
    def compactions_in_a_row(self) -> int:
        """The number of compactions of that execution since a reply has shown that the conversation fits."""
        return self._fold.execution.compactions if self._fold.execution else 0

    @property
    def compacted(self) -> Compacted | None:
        """The newest compaction of that execution; None when there was none."""
        return self._fold.execution.compacted if self._fold.execution else None

    @property
    def model_usage(self) -> tuple[ModelUsage, ...]:
        """The tokens of that execution by model, in the order of the first replies of the models."""
        return self._fold.execution.model_usage if self._fold.execution else ()

    @property
    def elapsed_seconds(self) -> float:
        """The wall time since that execution started or was resumed last; without one, since the session began."""
        execution = self._fold.execution
        if execution is None:
            return seconds_between(self._fold.created_at, self.as_of) if self._fold.version else 0.0
        return execution.wall.us(self.as_of) / 1e6

    @property
    def cumulative_execution_seconds(self) -> float:
        """The active time of that execution: the time of its steps in all segments, without waits and pauses."""
        execution, step = self._fold.execution, self._fold.step
        if execution is None:
            return 0.0
        return (execution.active_us + (step.clock.us(self.as_of) if step else 0)) / 1e6

    @property
    def consecutive_failures(self) -> int:
        """The number of steps in a row that have failed. Steps whose model call was given up do not count."""
        return self._fold.execution.consecutive_failures if self._fold.execution else 0

    @property
    def total_failures(self) -> int:
        """The number of steps of that execution that have failed."""
        return self._fold.execution.total_failures if self._fold.execution else 0

    @property
    def error_context(self) -> ErrorContext:
        """The failures on which the error policy decides: the error of the last step, and how many came before it."""
        policy = self._fold.execution.agent.error_policy if self._fold.execution else None
        return AgentErrorContextResolver(policy).resolve(self)

    @property
    def retry_is_granted(self) -> bool:
        """Tell whether the last recorded step failed and the error policy wants another try."""
        decision = self._fold.execution.decision if self._fold.execution else None
        wanted = decision is not None and decision.retries and self.consecutive_failures > 0
        return wanted and self.current_step is not None and self.current_step.has_errors

    @property
    def tool_call_count(self) -> int:
        """The number of tool calls that execution has started. Further tries of a call are not counted."""
        return sum(self._fold.execution.tool_calls.values()) if self._fold.execution else 0

    @property
    def tool_calls_refused(self) -> int:
        """The number of calls that were not run because they were beyond the limit of the execution."""
        return self._fold.execution.tool_calls_refused if self._fold.execution else 0

    @property
    def unproductive_segments(self) -> int:
        """The number of segments in a row that ended without any progress."""
        return self._fold.execution.unproductive_segments if self._fold.execution else 0

    @property
    def has_unanswered_input(self) -> bool:
        """Tell whether the user has said something that no model call has seen yet."""
        return self._fold.execution is not None and self._fold.execution.unanswered

    @property
    def pending_votes(self) -> tuple[ContinuationEvaluation, ...]:
        """The votes that no decision has resolved yet."""
        return self._fold.execution.votes if self._fold.execution else ()

    @property
    def continuation_outcome(self) -> ContinuationOutcome | None:
        """The newest decision with all its votes; None before the first one, and while a step is open."""
        return None if self._fold.step is not None else self.last_continuation_outcome

    @property
    def last_continuation_outcome(self) -> ContinuationOutcome | None:
        """The newest decision with all its votes; None before the first one."""
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
    def answered(self) -> bool:
        """Whether that execution has stopped with an answer of the model, even if the stop reason is a limit."""
        finished = self._fold.execution.finished if self._fold.execution else None
        return finished is not None and finished.answered

    @property
    def output(self) -> str | None:
        """The answer: the text of the last step that called no tools; None when there is none.

        If the agent has a type of output, the answer is that of the last step, if it was accepted, as the text of its
        JSON.
        """
        step = self.current_step
        if step is not None and self.answers_in_a_type:
            return result_text(self.output_json) if step.output_verdict is OutputVerdict.ACCEPTED else None
        return step.text if step is not None and not step.has_tool_calls and step.reply is not None else None

    @property
    def answers_in_a_type(self) -> bool:
        """Whether the agent of that execution has a type of output."""
        return self._fold.execution is not None and self._fold.execution.agent.output is not None

    @property
    def output_json(self) -> JsonValue:
        """The accepted answer of the last step as JSON; None when there is none, or when the agent answers in text."""
        step = self.current_step
        return step.output.value if step is not None and step.output is not None else None

    @property
    def output_rejections(self) -> int:
        """The number of answers of that execution in a row that were rejected."""
        return self._fold.execution.rejections if self._fold.execution else 0
