"""The buttons of the pages: how a question can be answered, and what can be said to a run as it stands."""

from collections.abc import Sequence
from typing import NamedTuple

from steptrail.domain.digests import digest_of
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.http.inspector.told import Told
from steptrail.projections.questions import Question


class Way(NamedTuple):
    """A button of a question: the value that it sends, its word, and the field that it needs; None for none."""

    value: str
    word: str
    field: str | None = None


def ways_to_answer(question: Question) -> Sequence[Way]:
    """Return the buttons under a question, the careful ones first."""
    match question.kind:
        case "approval":
            return [Way("deny", "Deny"), Way("approve", "Approve")]
        case "step":
            skips = [Way(f"skip:{option}", f"Skip it, on to {option}") for option in question.options]
            middle = skips or [Way("skip", "Skip it")]
            return [
                Way("abort", "Abort the run"),
                *(middle if question.type == "before" else ()),
                Way("continue", "Go on"),
            ]
        case "human":
            return _human(question)
        case "external":
            return [Way("failed", "It failed"), Way("data", "Send", "data")]
        case _:
            tell = [Way("tell", "Tell the model that nobody knows")] if question.node is None else []
            return [
                *tell,
                Way("failed", "It failed"),
                Way("rerun", "Run it again"),
                Way("done", "It completed", "data"),
            ]


def _human(question: Question) -> Sequence[Way]:
    match question.type:
        case "approval":
            return [Way("reject", "Reject"), Way("approve", "Approve")]
        case "choice":
            return [Way(f"choice:{option}", option) for option in question.options]
        case _:
            return [Way("reject", "Reject"), Way("data", "Send", "data")]


def shown_digest(question: Question) -> str:
    """Return what a form says that was shown: a question that is asked anew has another one."""
    return digest_of([question.kind, question.id, question.digest, question.asked_at.isoformat()])


def ways_to_steer(told: Told) -> Sequence[Way]:
    """Return the buttons of a run, the careful one first."""
    if told.can_be_retried:
        return [Way("requeue", "Retry with a worker")]
    if told.explained.status.is_over:
        return []
    is_paused = told.status.word == ExecutionStatus.PAUSED.value
    return [
        Way("unpause", "Resume with a worker") if is_paused else Way("pause", "Pause"),
        Way("stop", "Stop for good"),
    ]
