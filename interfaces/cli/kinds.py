"""The table of what the command line shows of each kind of machine, by the prefix of its streams."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import ByPrefix
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.going_on import GivenWords, WayOn
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.summaries import summary


class KindShown(NamedTuple):
    """The words of the command line for one kind of machine.

    `summary` says an event on one line. `how_to_go_on` returns the command that takes a run further, with what was
    given; `code_of` where the code of a run is, as far as that is stored, with options. `result` makes a result of a
    state, which `print_result`, `result_data` and `exit_of` show. `print_state` and `state_data` are given a state and
    the events of `types`; `print_why` and `why_data` an explanation and the store that was given.
    """

    summary: Callable[[Event], str]
    how_to_go_on: Callable[[Any, GivenWords], WayOn]
    code_of: Callable[[Any, GivenWords], Sequence[str]]
    result: Callable[[Any], Any]
    print_result: Callable[[Output, Any, GivenWords], None]
    result_data: Callable[[Any], dict[str, JsonValue]]
    exit_of: Callable[[Any], Exit]
    types: Sequence[str]
    print_state: Callable[[Output, Any, Sequence[Recorded[Any]]], None]
    state_data: Callable[[Any, Sequence[Recorded[Any]]], Mapping[str, JsonValue]]
    print_why: Callable[[Output, Any, str | None], None]
    why_data: Callable[[Any, str | None], Mapping[str, JsonValue]]


SHOWN: ByPrefix[KindShown] = ByPrefix(
    {
        "agent:": "steptrail.interfaces.cli.agent_kind:SHOWN_OF_AGENTS",
        "flow:": "steptrail.interfaces.cli.flow_kind:SHOWN_OF_FLOWS",
    }
)
"""Prefix of a stream -> what is shown of its kind; None for one that the command line has no words for."""


def kind_shown(stream: str) -> KindShown:
    """Return what is shown of the kind of a stream, which the command line has words for."""
    shown = SHOWN.of(stream)
    if shown is None:
        raise LookupError(f"there are no words for streams like {stream!r}")
    return shown


def result_told(output: Output, stream: str, result: Any, given: GivenWords) -> Exit:
    """Print the result of a run, for people or as JSON, and return the exit code for it."""
    shown = kind_shown(stream)
    if output.as_json:
        output.data(shown.result_data(result))
    else:
        shown.print_result(output, result, given)
    return shown.exit_of(result)


def summary_of(stream: str, event: Event) -> str:
    """Return what an event of a stream says, short and on one line; an empty text where there are no words for it."""
    shown = SHOWN.of(stream)
    return summary(event) if shown is None else shown.summary(event)
