"""The command that takes a session further, as it can be typed: with new limits, and the store where it needs one."""

import argparse
import re
import shlex
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import NamedTuple

from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import LIMITS
from steptrail.domain.errors import stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import usd_text
from steptrail.domain.secrets import without_secrets
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.output import one_line
from steptrail.interfaces.cli.parser import option_of
from steptrail.projections.advice import Advice, Change
from steptrail.projections.questions import Question
from steptrail.projections.run_explanation import RunExplanation
from steptrail.projections.same_failure import SameFailure

_USER = re.compile(r"://[^:/?#@\s]+@")


class ForRun(Enum):
    """Whether a command takes the run that was asked about further, or begins another one."""

    THIS = "which lets this run go on"
    NEXT = "which begins the next run: this one stays as it is"


class WayOn(NamedTuple):
    """A command, what may be done in its place, and which run it is for; None when it only tells more."""

    command: str
    otherwise: str = ""
    of: ForRun | None = ForRun.THIS

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the command and the run as JSON."""
        return {"next": self.command, "nextIsFor": None if self.of is None else f"{self.of.name.lower()} run"}

    def __str__(self) -> str:
        """Return both as they are printed."""
        return f"`{self.command}`{f', or {self.otherwise}' if self.otherwise else ''}"


class GivenWords(NamedTuple):
    """The words of a command that the next one needs too."""

    agent: str | None = None
    use: Sequence[str] = ()
    store: str | None = None


def given_again(arguments: argparse.Namespace) -> GivenWords:
    """Return the words of a command that the next one needs too."""
    return GivenWords(arguments.agent, getattr(arguments, "use", ()), store_given(arguments))


def store_given(arguments: argparse.Namespace) -> str | None:
    """Return the store that was named on the command line, which another command has to name too."""
    return store_named(getattr(arguments, "store", None))


def store_named(given: str | None) -> str | None:
    """Return the address of a store as it stands in commands that are shown; None for none."""
    if given is None:
        return None
    # An address with a password is not repeated; one that only says who calls is.
    without_user = _USER.sub("://", given)
    return given if without_secrets(without_user) == without_user else "URL"


def how_to_go_on(state: AgentState, given: GivenWords, *, advice: Advice | None = None) -> WayOn:
    """Return the command that takes the session further.

    An AGENT that was given stands in place of the recorded one. With `advice` a retry makes its changes of limits.
    """
    (who,) = code_of_agent(state, given)
    say = partial(typed, given.store)
    waits = state.execution.waits if state.execution is not None else ()
    effect = next((wait.id for wait in waits if wait.kind == "unknown_outcome" and wait.answered_at is None), None)
    rests = (call.suspension for call in state.tool_executions)
    child = next((rest.session for rest in rests if rest is not None), None)
    match state.status:
        case ExecutionStatus.COMPLETED | ExecutionStatus.FAILED if can_be_retried(state):
            return WayOn(say("retry", who, state.agent_id, options=_options(advice)))
        case status if status.is_over or state.execution is None:
            return WayOn(say("send", who, state.agent_id, "TEXT"), of=ForRun.NEXT)
        case ExecutionStatus.WAITING if effect is not None:
            ways = "with --rerun, --result JSON or --failed TEXT in place of --tell"
            return WayOn(say("settle", state.agent_id, effect, options=("--tell",)), ways)
        case ExecutionStatus.WAITING if state.open_approvals:
            command = say("approve", state.agent_id, state.open_approvals[0].id, options=("--by", "WHO"))
            return WayOn(command, "`deny` in place of `approve`")
        case ExecutionStatus.WAITING if state.open_calls:
            command = say("answer", state.agent_id, state.open_calls[0].id, options=("--data", "JSON", "--by", "WHO"))
            return WayOn(command, "--failed TEXT in place of --data")
        case ExecutionStatus.WAITING if child is not None:
            return WayOn(say("why", child), f"`{say('resume', who, state.agent_id)}` when that one can go on", None)
        case _:
            return WayOn(say("resume", who, state.agent_id))


def code_of_agent(state: AgentState, given: GivenWords) -> Sequence[str]:
    """Return where the agent is that was given or recorded; a word in its place when it was run from Python."""
    return (given.agent or (state.agent.locator if state.agent is not None else None) or "AGENT",)


def instead_of_going_on(explained: RunExplanation, session: str, *, store: str | None = None) -> WayOn | None:
    """Return the command that tells more where an explanation ends before the events do; None where it does not.

    A session of which something cannot be read is refused by whatever would run it.
    """
    if explained.damage is not None:
        return WayOn(typed(store, "doctor"), of=None)
    return None if explained.is_newest else WayOn(typed(store, "why", session), of=None)


def alike_to(failure: SameFailure, *, store: str | None = None) -> str:
    """Return how often a failure has come lately, with the command that lists its runs."""
    since = f"{failure.days}d"
    return f"{failure}: `{typed(store, 'runs', options=('--signature', failure.signature, '--since', since))}`"


def answers_to(question: Question, *, store: str | None = None) -> Sequence[str]:
    """Return the commands that answer a question. A yes is to what was shown: with a digest, to that and no other."""
    stream = stream_name(question.stream)
    digest = ("--digest", question.digest) if question.digest is not None else ()

    def ways(command: str, to: str, *answers: tuple[str, ...]) -> list[str]:
        return [typed(store, command, stream, to, options=answer) for answer in answers]

    match question.kind:
        case "approval":
            who = ("--by", "WHO")
            return [*ways("approve", question.id, (*who, *digest)), *ways("deny", question.id, who)]
        case "external":
            answers = [(*answer, "--by", "WHO") for answer in (("--data", "JSON"), ("--failed", "TEXT"))]
            return ways("answer", question.id, *answers)
        case "human":
            answers = [(*answer, "--by", "WHO", *digest) for answer in _answers(question)]
            return ways("answer", question.node or question.id, *answers)
        case "step":
            targets: list[tuple[str, ...]] = [("--target", option) for option in question.options] or [()]
            skips = [("skip", target) for target in targets] if question.type == "before" else []
            actions = [("continue", ()), *skips, ("abort", ())]
            return [
                typed(store, "step", stream, question.id, action, options=(*options, "--by", "WHO"))
                for action, options in actions
            ]
        case _:
            told = (("--tell",),) if question.node is None else ()
            return ways("settle", question.id, ("--result", "JSON"), ("--failed", "TEXT"), ("--rerun",), *told)


def _answers(question: Question) -> list[tuple[str, ...]]:
    match question.type:
        case "approval":
            return [("--approve",), ("--reject",)]
        case "choice":
            return [valued("--choice", option) for option in question.options]
        case _:
            return [("--data", "JSON"), ("--reject",)]


def typed(store: str | None, command: str, *places: str, options: Sequence[str] = ()) -> str:
    """Return a command as it can be typed, with the store where one was given."""
    options = (*options, *(("--store", store) if store is not None else ()))
    # An id may begin with a dash.
    if any(place.startswith("-") for place in places):
        return " ".join(map(_quoted, ["steptrail", command, *options, "--", *places]))
    return " ".join(map(_quoted, ["steptrail", command, *places, *options]))


def _quoted(word: str) -> str:
    if one_line(word) == word:
        return shlex.quote(word)
    # Printed like that it would be another word. bash, zsh and ksh read these escapes.
    escaped = "".join(c if c.isprintable() and c not in "\\' " else f"\\U{ord(c):08x}" for c in word)
    return f"$'{escaped}'"


def valued(option: str, value: str) -> tuple[str, ...]:
    """Return the words of an option with its value, which may begin with a dash."""
    return (f"{option}={value}",) if value.startswith("-") else (option, value)


def _options(advice: Advice | None) -> Sequence[str]:
    changed: dict[str, object] = {}
    for change in advice.changes if advice is not None else ():
        changed.update(change.limits or {})
    settable = [(name, value) for name, value in changed.items() if _has_option(name)]
    return [word for name, value in settable for word in (option_of(name), _written(value))]


def is_option(change: Change) -> bool:
    """Tell whether options of `retry` make the whole of a change."""
    return not change.error_policy and bool(change.limits) and all(map(_has_option, change.limits or ()))


def _has_option(setting: str) -> bool:
    return setting in LIMITS and LIMITS[setting].unit is not None


def _written(value: object) -> str:
    return usd_text(value) if isinstance(value, Decimal) else str(value)
