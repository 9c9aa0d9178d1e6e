"""Takes a decision from the votes that were cast: the outcome, and whether the run has answered. Pure."""

from msgspec import structs

from steptrail.domain.agent.deciding_error import last_failure
from steptrail.domain.agent.effects import TakeDecision
from steptrail.domain.agent.events import ModelSwitched
from steptrail.domain.agent.events.decisions import ContinuationEvaluated, DecisionPhase, EvaluationsRecorded
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.votes import resolved_votes, take_votes
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor
from steptrail.domain.output import OutputVerdict
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.policy.fallback import handling_of
from steptrail.domain.shared.run import ExecutionStatus


def decided(
    state: AgentState, execution: ExecutionFold, due: TakeDecision, cast: EvaluationsRecorded | None = None
) -> tuple[ContinuationEvaluated | ModelSwitched, ...]:
    """Return the decision `due`, from the votes that the criteria `cast` and those that hooks have cast before.

    After it comes the switch to the next model, where one is due.
    """
    ballot = structs.replace(execution)
    if cast is not None:
        take_votes(ballot, cast)
    outcome = ContinuationOutcome.from_evaluations(resolved_votes(ballot, due.phase))
    goes_on = outcome.should_continue and due.phase is not DecisionPhase.RESUME
    switch = state.switch_due if goes_on else None
    decision = ContinuationEvaluated(
        step=due.step,
        phase=due.phase,
        decision=outcome.decision,
        should_continue=outcome.should_continue,
        resolved_by=outcome.resolved_by,
        stop_reason=outcome.stop_reason,
        retries=goes_on and switch is None and _is_to_be_retried(state, execution),
        answered=_is_an_answer(execution, outcome, due),
    )
    return (decision,) if switch is None else (decision, switch)


def terminal_status(state: AgentState, outcome: ContinuationOutcome) -> ExecutionStatus:
    """Return `completed` or `failed` for an execution that stops with `outcome`.

    It is `failed` if the deciding vote says so: for an error, for retries that the error policy has used up, and for an
    answer that was cut or filtered. It is `completed` otherwise, limits and stops by a user included; the stop reason
    tells those apart. An execution whose last step failed never completes. A later step does not change that if it was
    given up before the model had replied.
    """
    vote = outcome.deciding_vote
    failed = (vote is not None and EvaluationProcessor.fails(vote)) or last_failure(state) is not None
    return ExecutionStatus.FAILED if failed else ExecutionStatus.COMPLETED


def ends_with_an_answer(state: AgentState, execution: ExecutionFold) -> bool:
    """Tell whether an execution that is about to finish has answered.

    Its last decision says so. It does not count when the user has said more since, or when a Stop hook that could not
    prevent the stop has objected.
    """
    decision, observed = execution.decision, ContinuationOutcome.from_evaluations(execution.votes)
    was_an_answer = decision is not None and decision.answered
    return was_an_answer and not (state.has_unanswered_input or observed.objects_to_the_answer)


def _is_to_be_retried(state: AgentState, execution: ExecutionFold) -> bool:
    step, agent = execution.steps.last, execution.agent
    if step is None or not step.has_errors:
        return False
    handling = handling_of(state.error_context, agent.error_policy, agent.fallback, state)
    return handling is ErrorHandlingDecision.RETRY


def _is_an_answer(execution: ExecutionFold, outcome: ContinuationOutcome, due: TakeDecision) -> bool:
    """Tell whether the run stops because the agent is done: its last step went well, and no vote objects to its answer.

    On a resume only guards vote. Whether another criterion asked to go on is then seen from the decision before.
    """
    step = execution.steps.last
    if step is None or step.reply is None or step.has_errors:
        return False
    if execution.agent.output is not None and step.output_verdict is not OutputVerdict.ACCEPTED:
        return False
    before = execution.decision
    asked_to_go_on = due.phase is DecisionPhase.RESUME and (before is None or not before.answered)
    return not (outcome.should_continue or outcome.objects_to_the_answer or asked_to_go_on)
