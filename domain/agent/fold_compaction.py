"""Fold handlers of compaction: which part of the conversation is shown from now on, and what that has come to."""

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.shortened import Compacted, Shortened
from steptrail.domain.kernel.handlers import Handlers

COMPACTION_HANDLERS = Handlers[SessionFold, [int], None]()


@COMPACTION_HANDLERS.of(stored.ConversationCompacted)
def _compacted(fold: SessionFold, event: stored.ConversationCompacted, at: int) -> None:
    before, asked, most = fold.shortened, event.by is not None, len(fold.messages)
    # The fold is total: a place behind the last message is none.
    fold.shortened = Shortened(
        through=min(event.through_message, most),
        kept=tuple(place for place in event.kept if place < min(event.through_message, most)),
        summary=event.summary if event.summary is not None else before.summary,
        cleared_through=min(event.cleared_through, most),
        cleared_above=event.cleared_above,
        asked=before.asked + asked,
    )
    fold.context_tokens = 0
    if event.usage is not None:
        fold.charge(event.usage, *event.usage.models)
    if fold.step is not None:
        fold.step.inference_error = None
    if (execution := fold.execution) is None:
        return
    if asked and execution.agent.compaction is not None and execution.agent.compaction.summarizer is None:
        fold.inferences += 1
    number = execution.compacted.number + 1 if execution.compacted is not None else 1
    execution.compacted = Compacted(number, event.through_step, event.tokens_before, event.how)
    execution.compactions += 1
    execution.productive = execution.productive or asked
    # The bill may have reached a limit, so the guards decide before a model is asked.
    execution.waited = execution.waited or asked
    fold.end_at(event.deadline)


def note_what_fits(fold: SessionFold, execution: ExecutionFold) -> None:
    """Take in what the first request after a compaction took, and whether that is below the mark."""
    if execution.compacted is not None and not execution.compacted.tokens_after:
        execution.compacted = structs.replace(execution.compacted, tokens_after=fold.context_tokens)
    if execution.agent.compaction is None or fold.context_tokens < execution.agent.compaction.mark:
        execution.compactions = 0
