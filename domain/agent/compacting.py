"""Decides when a conversation is compacted, and how far. It goes by the tokens that the provider has counted.

The cut is before a reply of the model, so a call and its result are on the same side of it.
"""

from collections.abc import Sequence

from msgspec import Struct

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import ConversationCompacted
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.request_view import shown_before
from steptrail.domain.agent.shortened import Shortened, size_of, without_long_results
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.files import with_newest_files
from steptrail.domain.policy.compaction import MOST_IN_A_ROW, CompactionSpec
from steptrail.domain.policy.too_long import is_too_long
from steptrail.domain.usage import BilledUsage


class Plan(Struct, frozen=True):
    """How a conversation is compacted: long results before the place `cut` are left out.

    If it `summarises`, a summary stands for the messages before it, except those at the places `kept`.
    """

    cut: int
    kept: tuple[int, ...]
    cleared_calls: int
    summarises: bool


def due_before_a_step(fold: SessionFold, execution: ExecutionFold) -> Plan | None:
    """Return how to compact before the next step, because the last request was too large; None when it was not."""
    spec = execution.agent.compaction
    if spec is None or fold.context_tokens < spec.mark:
        return None
    return _plan(fold, execution, spec)


def due_after_a_refusal(fold: SessionFold) -> Plan | None:
    """Return how to compact before the model call is made again that was refused as too long; None when it was not."""
    execution, error = fold.execution, fold.step.inference_error if fold.step is not None else None
    spec = execution.agent.compaction if execution is not None else None
    if execution is None or spec is None or error is None or not is_too_long(error):
        return None
    return _plan(fold, execution, spec) or _plan_that_clears_all(fold, execution.agent, spec)


def _plan(fold: SessionFold, execution: ExecutionFold, spec: CompactionSpec) -> Plan | None:
    """Return the plan; None when there is nothing that could be left out, or when it has not helped before.

    What did not help, or finds nothing to leave out, is followed by one that keeps only the last step.
    """
    if execution.compactions >= MOST_IN_A_ROW:
        return None
    first = None if execution.compactions else _plan_that_keeps(spec.keep_steps, fold, execution.agent, spec)
    return first or _plan_that_keeps(1, fold, execution.agent, spec)


def _plan_that_keeps(steps: int, fold: SessionFold, agent: AgentSnapshot, spec: CompactionSpec) -> Plan | None:
    before = fold.shortened
    cut = max(_cut(fold, steps), before.through)
    kept = tuple(place for place in _to_keep(fold, before) if place < cut and place not in fold.withdrawn)
    shown, rest = list(shown_before(fold, cut, agent)), fold.messages[cut:]
    if agent.media_window is not None:
        said = with_newest_files([*shown, *rest], agent.media_window)
        shown, rest = said[: len(shown)], said[len(shown) :]
    cleared = [without_long_results(message, spec.clear_results_above) for message in shown]
    calls = sum(new is not old for new, old in zip(cleared, shown, strict=True))
    may_summarise = len(shown) - len(before.head) > len(kept)
    if not calls and not may_summarise:
        return None
    whole, left = sum(map(size_of, [*shown, *rest])), sum(map(size_of, [*cleared, *rest]))
    tokens = max(fold.context_tokens, spec.mark) * left / whole
    # Only half of the mark leaves room for more steps: what is just below it would be compacted again soon.
    is_enough = bool(calls) and fold.context_tokens > 0 and tokens <= spec.mark / 2
    return Plan(cut, kept, calls, summarises=may_summarise and not is_enough)


def _plan_that_clears_all(fold: SessionFold, agent: AgentSnapshot, spec: CompactionSpec) -> Plan | None:
    """Return the last resort: long results of the last step go too, since the model cannot be shown them."""
    shown, end = shown_before(fold, len(fold.messages), agent), len(fold.messages)
    calls = sum(without_long_results(message, spec.clear_results_above) is not message for message in shown)
    return Plan(end, (), calls, summarises=False) if calls else None


def _cut(fold: SessionFold, steps: int) -> int:
    """Return the place of the reply that so many steps begin with, or of the question before it; else 0."""
    for place in range(len(fold.messages) - 1, -1, -1):
        if place not in fold.withdrawn and fold.messages[place].is_assistant():
            steps -= 1
            if steps == 0:
                return place - 1 if place and fold.messages[place - 1].is_user() else place
    return 0


def _to_keep(fold: SessionFold, before: Shortened) -> Sequence[int]:
    """Return the places of the input that is answered, and of the newest message of the user."""
    since = range(len(fold.messages) - 1, max(fold.input_at, before.through) - 1, -1)
    said = (at for at in since if fold.messages[at].is_user() and not fold.origins[at].output)
    return sorted({fold.input_at, next(said, max(before.kept, default=fold.input_at))})


def compacted(
    fold: SessionFold,
    execution: ExecutionFold,
    plan: Plan,
    *,
    summary: str | None = None,
    by: str | None = None,
    usage: BilledUsage | None = None,
    problem: ErrorInfo | None = None,
    deadline: int | None = None,
    duration_seconds: float = 0.0,
) -> ConversationCompacted:
    """Return the event of a compaction by `plan`. Without a new summary it only leaves out long results."""
    before, spec = fold.shortened, execution.agent.compaction
    return ConversationCompacted(
        through_step=len(execution.steps),
        through_message=before.through if summary is None else plan.cut,
        kept=before.kept if summary is None else plan.kept,
        summary=summary,
        cleared_through=max(plan.cut, before.cleared_through),
        cleared_above=spec.clear_results_above if spec is not None else before.cleared_above,
        cleared_calls=plan.cleared_calls if summary is None else 0,
        tokens_before=fold.context_tokens if fold.step is None else 0,
        by=by,
        usage=usage,
        problem=problem,
        deadline=deadline,
        duration_seconds=duration_seconds,
    )
