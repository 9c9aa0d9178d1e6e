"""Makes the `Judges` of a session that runs here: its criteria, its request builder, and its random numbers."""

from collections.abc import Callable
from functools import partial

from steptrail.domain.agent.conclude import Judges, RequestBuilder
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    InferenceStarted,
    ModelSwitched,
    RetryScheduled,
    ToolExecutionFailed,
    ToolRetryScheduled,
)
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.failures import ErrorInfo
from steptrail.runtime.agent.agent import AnyAgent, criteria_for
from steptrail.runtime.agent.agent_journal import AgentJournal
from steptrail.runtime.agent.run_log import RUNS, call_failed, failed_vote
from steptrail.runtime.agent.unfit import unfit

_TOLD = frozenset({InferenceStarted, ModelSwitched, RetryScheduled, ToolRetryScheduled, ToolExecutionFailed})


def judges_of(
    journal: AgentJournal, agent: AnyAgent | None, requests: RequestBuilder, draw: Callable[[], float], means: Means
) -> Judges:
    """Return the judges of one session. Without an agent, only the built-in criteria vote, by recorded settings."""
    own = agent.criteria if agent is not None else ()
    asked: list[tuple[AgentSnapshot, ContinuationCriteria]] = []

    def criteria(recorded: AgentSnapshot) -> ContinuationCriteria:
        # The criteria are made once for a recorded agent and asked after every step, because they may keep a state.
        if not asked or asked[0][0] is not recorded:
            asked[:] = [(recorded, criteria_for(recorded, own))]
        return asked[0][1]

    return Judges(
        criteria=criteria,
        are_ours=not own,
        failed=partial(failed_vote, journal.peek().agent_id, "the criterion"),
        requests=requests,
        draw=draw,
        means=means,
        unfit=partial(_unfit, journal, agent),
        behind=journal.behind,
    )


def _unfit(journal: AgentJournal, agent: AnyAgent | None, call: ToolExecution) -> ErrorInfo | None:
    tool = agent.tools.get(call.name) if agent is not None else None
    return unfit(tool, call.arguments, call.call.raw, journal.now())


def tell_conclusions(state: AgentState, concluded: tuple[AgentEvent, ...]) -> None:
    """Log model calls, retries, and tool calls that could not start."""
    for event in concluded:
        if type(event) not in _TOLD:
            continue
        match event:
            case InferenceStarted(step=step, attempt=attempt):
                RUNS.debug("session %s: step %d asks the model, attempt %d", state.agent_id, step, attempt)
            case RetryScheduled(delay_seconds=delay, failures=failures, error_type=kind):
                said = "session %s: again in %.1f s after failure %d (%s)"
                RUNS.warning(said, state.agent_id, delay, failures, kind.value)
            case ModelSwitched():
                RUNS.warning("session %s: goes on with another model: %s", state.agent_id, event)
            case ToolRetryScheduled(position=position, delay_seconds=delay, failures=failures):
                name = state.tool_executions[position].name
                said = "session %s: tool %s again in %.1f s after failure %d"
                RUNS.warning(said, state.agent_id, name, delay, failures)
            case ToolExecutionFailed(position=position, error=error):
                call_failed(f"session {state.agent_id}", f"tool {state.tool_executions[position].name}", error, None)
            case _:
                pass
