"""Scores: how good people and programs find an execution, or a step of it. They are events, and no state follows."""

import re

from steptrail.domain.base import Positive
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import CommandRejected, ConfigurationError, NotStorable, shown
from steptrail.domain.kernel.commands import FromOutside
from steptrail.domain.shared.events import ScoreValue, SessionScored
from steptrail.domain.shared.fold import Fold
from steptrail.domain.shared.state import F, StreamState

_LONGEST_LABEL, _LONGEST_COMMENT = 100, 10_000
_NAME = re.compile(r"[^\s<>=\x00-\x1f\x7f]([^<>=\x00-\x1f\x7f]{0,62}[^\s<>=\x00-\x1f\x7f])?")


class GiveScore(FromOutside, frozen=True, kw_only=True):
    """Score an execution, the newest one without its number, or one step of it.

    Raises `ConfigurationError` for a name, a value or a comment that no score has.
    """

    DOING = "score"
    name: str
    value: ScoreValue
    by: str
    execution: Positive | None = None
    step: Positive | None = None
    comment: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        score_name(self.name)
        if isinstance(self.value, str):
            _a_label(self.value)
        if self.comment is not None and len(self.comment) > _LONGEST_COMMENT:
            said = f"has at most {_LONGEST_COMMENT:,} characters, not {len(self.comment):,}"
            raise ConfigurationError(f"the comment of a score {said}")


def score_name(given: str) -> str:
    """Return `given` if it may be the name of a score. A filter says `name>=0.5`, so it has none of these signs."""
    if _NAME.fullmatch(given) is None:
        rule = "1 to 64 characters on one line, with no space at its ends, and none of < > ="
        raise ConfigurationError(f"{shown(given)} cannot be the name of a score: that is {rule}")
    return given


def _a_label(given: str) -> None:
    if not given.strip() or len(given) > _LONGEST_LABEL:
        raise ConfigurationError(f"a label is 1 to {_LONGEST_LABEL} characters, not {shown(given)}")
    if "\0" in given:
        raise NotStorable("value", "text with a NUL")  # it becomes a column of text


def scored(command: GiveScore, run: str, state: StreamState[F]) -> tuple[SessionScored]:
    """Return the event. Raises `CommandRejected` for an execution that there is not, or that is not of this stream.

    `run` is the id of the session. The past of a fork is scored where it happened.
    """
    there, number = state.fold.executions, command.execution or state.fold.executions
    if not there:
        raise CommandRejected("score", run, "no execution has begun in it")
    if number > there:
        raise CommandRejected("score", run, f"it has no execution {number}: there are {there}")
    # What had ended before a fork began has done so, for the fork, with its first event.
    if (fork := state.forked_from) is not None and state.ended_at(number) == 1:
        raise CommandRejected("score", run, f"execution {number} belongs to {shown(fork.session)}: score it there")
    return (
        SessionScored(
            name=command.name,
            value=command.value,
            by=command.by,
            execution=number,
            step=command.step,
            comment=command.comment,
            key=command.key,
        ),
    )


def score_said(score: GiveScore | SessionScored) -> str:
    """Return the text that identifies a score under its key. A command that names no execution means any."""
    words = f"score {digest_of([score.name, score.value, score.by, score.step, score.comment])}"
    return words if score.execution is None else f"{words}\n{score.execution}"


def session_scored(fold: Fold, event: SessionScored, at: int) -> None:
    """Note the key of a score. Nothing else follows from one."""
    fold.remember(event.key, score_said(event))
