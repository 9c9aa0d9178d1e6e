"""The scores of a session, as they are recorded: all of them, or those that count."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite

from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import ScoreValue, SessionScored


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScore:
    """One score. It is of the execution with that number, or of one step of it, and was stored as event `version`."""

    name: str
    value: ScoreValue
    by: str
    execution: int
    step: int | None = None
    comment: str | None = None
    at: Datetime
    version: int

    def __str__(self) -> str:
        """Return it in words."""
        return score_words(self)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {**asdict(self), "at": self.at.isoformat()}


def score_words(score: RecordedScore | SessionScored) -> str:
    """Return a score in words: `helpful = 1 by ana (clear and short)`."""
    of = f" of step {score.step}" if score.step is not None else ""
    said = f" ({score.comment})" if score.comment else ""
    return f"{score.name}{of} = {value_text(score.value)} by {score.by}{said}"


_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}


def value_said(text: str) -> ScoreValue:
    """Return the value that a text says: a truth value, a number, or else a label."""
    with suppress(ValueError):
        return _TRUTHS[text] if text in _TRUTHS else int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if isfinite(number) else text


def value_text(value: ScoreValue) -> str:
    """Return a value for people."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def recorded_scores(records: Iterable[Recorded[Event]]) -> Sequence[RecordedScore]:
    """Return the scores among the records of a stream, oldest first."""
    return [
        RecordedScore(
            name=event.name,
            value=event.value,
            by=event.by,
            execution=event.execution,
            step=event.step,
            comment=event.comment,
            at=to_datetime(record.at),
            version=record.version,
        )
        for record in records
        if isinstance(event := record.event, SessionScored)
    ]


def that_count(scores: Iterable[RecordedScore]) -> Sequence[RecordedScore]:
    """Return the newest score of each name, by each person or program, of each execution and step; oldest first."""
    newest = {(each.name, each.by, each.execution, each.step): each for each in scores}
    return sorted(newest.values(), key=lambda each: each.version)
