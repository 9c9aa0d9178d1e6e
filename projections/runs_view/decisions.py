"""Handlers of the decisions of agents and of the votes that led to them."""

from steptrail.domain.agent.events import ContinuationEvaluated, EvaluationsRecorded, RetryScheduled
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import LIMITS
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.storable import plain
from steptrail.projections.kernel.table import Row
from steptrail.projections.runs_view.executions import end_rest
from steptrail.projections.runs_view.memory import RunMemory, RunMoment
from steptrail.projections.runs_view.signature import kind_of
from steptrail.projections.runs_view.tables import EVALUATIONS, OUTCOMES

DECISION_HANDLERS = Handlers[RunMemory, [RunMoment], None]()

_ALLOW = ContinuationDecision.ALLOW
_LONGEST_NUMBER = 40


@DECISION_HANDLERS.of(EvaluationsRecorded)
def _voted(run: RunMemory, event: EvaluationsRecorded, moment: RunMoment) -> None:
    for place, vote in enumerate(event.votes):
        # By far the most usual vote first: most have nothing to say.
        if vote.decision is _ALLOW and not vote.fails and "shadow" not in vote.context:
            continue
        if vote.fails and (error := vote.raised) is not None:
            run.raised = kind_of(error, vote.criterion_class).written(moment.changes)
        shadow = vote.shadow
        if vote.decision is _ALLOW and shadow in {None, _ALLOW}:
            continue
        used, at_most = _numbers(vote)
        row: Row = {
            "execution": run.execution,
            "version": moment.version,
            "n": place,
            "step": run.newest_step,
            "phase": event.phase.value,
            "criterion": plain(vote.criterion_class),
            "decision": vote.decision.value,
            "stop_reason": vote.stop_reason.value if vote.stop_reason is not None else None,
            "shadow": shadow.value if shadow is not None else None,
            "hook": None if event.hook is None else plain(event.hook),
            "setting": None if vote.setting is None else plain(vote.setting),
            "used": used,
            "at_most": at_most,
        }
        moment.changes.put(EVALUATIONS, row)


def _numbers(vote: ContinuationEvaluation) -> tuple[str | None, str | None]:
    """Return what a limit found to be used and what it allows; None for what is no number."""
    kind = LIMITS.get(vote.setting or "")
    used, at_most = getattr(kind, "keys", ("", ""))
    return _number(vote.context.get(used)), _number(vote.context.get(at_most))


def _number(value: JsonValue) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return repr(value) if abs(value) < 10**_LONGEST_NUMBER else None


@DECISION_HANDLERS.of(ContinuationEvaluated)
def _decided(run: RunMemory, event: ContinuationEvaluated, moment: RunMoment) -> None:
    row: Row = {
        "execution": run.execution,
        "version": moment.version,
        "step": event.step,
        "phase": event.phase.value,
        "decision": event.decision.value,
        "should_continue": event.should_continue,
        "resolved_by": plain(event.resolved_by),
        "stop_reason": None if event.should_continue else event.stop_reason.value,
        "retries": event.retries,
        "answered": event.answered,
        "at": moment.at,
    }
    moment.changes.put(OUTCOMES, row)
    run.retries += event.retries and event.should_continue
    if event.phase == "resume" and not event.should_continue and run.wait is not None:
        # The guards end the run in the middle of its wait, which nothing else ends.
        run.wait = None
        end_rest(run, moment, "stop")


@DECISION_HANDLERS.of(RetryScheduled)
def _nothing(run: RunMemory, event: RetryScheduled, moment: RunMoment) -> None:
    """Change nothing: the decision said that the step is tried again, and a wait says until when."""
