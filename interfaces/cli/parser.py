"""The grammar of the command line: one parser, `--store` and `--json` on either side of the command."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, cast

from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.secrets import without_secrets
from steptrail.domain.storable import is_unicode
from steptrail.domain.version import VERSION
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.times import age_of, time_of
from steptrail.runtime.kernel.json_form import to_json_value

Handler = Callable[[argparse.Namespace, Output], int | None]
"""Carries out a parsed command and returns the exit code; None for one that has answered."""

FORMS = "FILE.py[:NAME], package.module[:NAME], or FILE.yaml of a workflow"
"""The forms of AGENT."""

_MOST_DIGITS = 18
_LONGEST, _LONGEST_REFUSAL = 200, 1_000
"""Characters that are repeated of what cannot be read, and of all that is said of it."""
_DEFAULT_STORE = "sqlite:///steptrail.db"


class Parser(argparse.ArgumentParser):
    """Refuses with one line instead of ending the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise `Refusal`. What was typed may be the address of a store, and what is refused stands in logs."""
        raise Refusal(f"{one_line(without_secrets(message), _LONGEST_REFUSAL)} (see `{self.prog} --help`)")

    def parse_args(self, *given: Any, **settings: Any) -> Any:
        """Return the arguments. Raises `Refusal` for a text with bytes that are no Unicode; paths may have some."""
        arguments = super().parse_args(*given, **settings)
        for name, value in vars(arguments).items():
            texts = cast("list[object]", value) if isinstance(value, list) else [value]
            for text in texts:
                if isinstance(text, str) and not is_unicode(text):
                    self.error(f"{name}: {one_line(repr(text), _LONGEST)} is not Unicode")
        return arguments

    def print_help(self, file: Any = None) -> None:
        """Print the help. Raises `Refusal` where it cannot be written."""
        _tell(self.format_help().rstrip("\n"))


Group: TypeAlias = "argparse._SubParsersAction[Parser]"  # pyright: ignore[reportPrivateUsage]
"""The commands of a command, such as those of `flow`."""


class Commands:
    """The commands as they register themselves."""

    def __init__(self) -> None:
        everywhere = _everywhere()
        self.parser = Parser(
            prog="steptrail",
            description="Run LLM agents as event-sourced state machines that can always say why they stopped.",
            epilog="Ids may be shortened to a unique prefix; that of a run of a workflow is flow:ID. AGENT is an agent "
            f"or a workflow: {FORMS}. "
            "Exit codes of every command: 2 for what was wrong, or is not there, 7 for a store that is locked, full or "
            "away: try again, 8 where it cannot be known whether something was stored: look first.",
            parents=[everywhere],
        )
        self.parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and end")
        self._everywhere = everywhere
        self.names = set[str]()
        self._commands = self.parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")

    def group(self, name: str, summary: str) -> Group:
        """Add a command that has commands of its own, and return the place for them."""
        parser = self._commands.add_parser(name, help=summary, description=summary, parents=[self._everywhere])
        return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(
        self, name: str, handler: Handler, summary: str, *, exits: str | None = None, within: "Group | None" = None
    ) -> Parser:
        """Add a command and return its parser; `exits` says what its exit codes mean, `within` is its group."""
        parser = (within or self._commands).add_parser(
            name, help=summary, description=summary, epilog=exits, parents=[self._everywhere]
        )
        parser.set_defaults(handler=handler)
        self.names.add(name)
        return parser


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and end."""
        _tell(f"steptrail {VERSION}")
        parser.exit()


def _tell(text: str) -> None:
    output = Output(sys.stdout, sys.stderr)
    output.text(text)
    if output.failure is not None:
        raise Refusal(f"the answer could not be written: {output.failure}")


def store_of(arguments: argparse.Namespace) -> str:
    """Return the address of the store: from the command, the environment, or the default.

    Raises `Refusal` for an empty one on the command line: a variable that is not set must not mean another store.
    """
    given: str | None = getattr(arguments, "store", None)
    if given is not None and not given.strip():
        raise Refusal("the address after --store is empty: leave it out, or give one such as sqlite:///runs.db")
    return given or os.environ.get("STEPTRAIL_STORE") or _DEFAULT_STORE


def engine_of(arguments: argparse.Namespace) -> str | None:
    """Return the engine that wakes workers: from the command or the environment; None for no engine."""
    given: str | None = getattr(arguments, "engine", None)
    return given or os.environ.get("STEPTRAIL_ENGINE") or None


def named(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return some of the arguments by their names, for a method of ours that takes them under the same ones."""
    return {name: getattr(arguments, name) for name in names}


def option_of(setting: str) -> str:
    """Return the option that sets a setting."""
    return f"--{setting.replace('_', '-')}"


def count(text: str) -> int:
    """Read a whole number from 0, and no larger than a store can hold."""
    return _whole(text, 0)


def amount(text: str) -> int:
    """Read a whole number from 1, and no larger than a store can hold."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or (len(text) <= _MOST_DIGITS and int(text) < least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    if len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} has more than {_MOST_DIGITS} digits")
    return int(text)


def most(text: str) -> tuple[str, int]:
    """Read a limit, `NAME=N` or `N` for every other name: (`*`, N)."""
    name, equals, number = text.rpartition("=")
    if equals and not name:
        raise argparse.ArgumentTypeError(f"{text!r} has no name before the =")
    return name or "*", amount(number)


def prefix(text: str) -> str:
    """Read an id or the beginning of one. An empty text is the beginning of every id, and is refused."""
    if not text or text.endswith(":"):
        raise argparse.ArgumentTypeError("the id is empty")
    return text


def a_path(text: str) -> Path:
    """Read a path. An empty text, such as a variable that is not set, would be the present folder, and is refused."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def a_new_file(text: str) -> Path:
    """Read the path of a file to write. What other programs take for the standard output is no name here."""
    if text == "-":
        raise argparse.ArgumentTypeError("leave it out for the standard output; a file of this name is ./-")
    return a_path(text)


def who(text: str) -> str:
    """Read who does something, for the record."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: say who")
    return text


def key(text: str) -> str:
    """Read the key of values that are hidden. An empty one, such as a variable that is not set, would hide none."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the key is empty")
    return text


def seconds(text: str) -> float:
    """Read a positive, finite number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def age(text: str) -> timedelta:
    """Read an age: `30min`, `12h`, `90d` or `2w`."""
    found = age_of(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: give 30min, 12h, 90d or 2w")
    return found


def moment(text: str) -> datetime:
    """Read a time: how long ago (`30min`, `12h`, `7d`, `2w`), or one in ISO 8601, of UTC if it says no zone."""
    try:
        when = time_of(text)
        return datetime.now(UTC) - when if isinstance(when, timedelta) else when.astimezone(UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time that a calendar has") from None


def json_value(what: str, text: str) -> JsonValue:
    """Read a JSON value. Raises `Refusal`, which begins with `what` it is, for anything else."""

    def refuse(constant: str) -> JsonValue:
        raise ValueError(f"{constant} is not JSON")

    shown = one_line(repr(text), _LONGEST)
    try:
        value: object = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise Refusal(f"{what}: it is nested too deep") from None
    except ValueError as error:
        raise Refusal(f"{what}: {shown} is not JSON ({error}); a text needs its quotes: '\"done\"'") from error
    try:
        return to_json_value(value)
    except NotStorable as error:
        raise Refusal(f"{what}: {error}") from error


def json_object(what: str, text: str, why: str) -> dict[str, JsonValue]:
    """Read a JSON object. Raises `Refusal` for anything else, which says `why` it is to be one."""
    value = json_value(what, text)
    if not isinstance(value, dict):
        raise Refusal(f"{what}: {one_line(repr(text), _LONGEST)} is not a JSON object: {why}")
    return value


def one_of(parser: Parser, option: str, words: Sequence[str], says: str) -> None:
    """Add an option that takes one of more words than a line holds, and lists them below what it says."""
    parser.add_argument(option, choices=words, metavar="WORD", help=f"{says}: {', '.join(words)}")


def by_option(parser: Parser) -> None:
    """Add the option that says who asks."""
    parser.add_argument("--by", type=who, default="user", help="who asks, for the record (default: user)")


def repeated(parser: Parser, option: str, metavar: str, says: str, *, read: Callable[[str], object] = str) -> None:
    """Add an option that may be said again. Its argument is the list of all that was said, each as `read` makes it."""
    again = f"{says}; may be said again"
    parser.add_argument(option, metavar=metavar, type=read, action="append", default=[], help=again)


def use_option(parser: Parser) -> None:
    """Add the option that brings the code of a workflow in YAML or JSON."""
    repeated(parser, "--use", "FILE.py", "a file or module with what the nodes of a workflow in YAML or JSON use")


def agent_options(parser: Parser) -> None:
    """Add AGENT, what brings the code of one in YAML or JSON, who asks, and what there is to say of the run."""
    parser.add_argument("agent", metavar="AGENT", help=FORMS)
    use_option(parser)
    by_option(parser)
    read = partial(json_value, "--context")
    parser.add_argument("--context", metavar="JSON", type=read, help="what to say of the run: the agent's context")


def asking_options(parser: Parser) -> None:
    """Add AGENT, what it is asked, and in which session."""
    agent_options(parser)
    parser.add_argument("input", metavar="INPUT", help="what to ask; JSON for a workflow")
    parser.add_argument("--id", help="the session's id, whole; the same input is answered in it once")
    parser.add_argument("--key", help="an idempotency key; without --id it stands for a session of its own")
    read = partial(json_object, "--metadata", why='such as {"tenant": "acme", "tags": {"user": "u7"}}')
    parser.add_argument("--metadata", metavar="JSON", type=read, help="tenant and tags, by which lists find the run")


def projection_option(parser: Parser) -> None:
    """Add the option that names the projections of a service."""
    says = "a projection of yours, FILE.py:NAME or package.module:NAME, to count with too"
    repeated(parser, "--projection", "FILE.py:NAME", says)


def _everywhere() -> Parser:
    # Without a default here the value that stands before the command survives the parser behind it.
    parent = Parser(add_help=False)
    parent.add_argument(
        "--store",
        metavar="URL",
        default=argparse.SUPPRESS,
        help=f"where the events are (default: $STEPTRAIL_STORE, else {_DEFAULT_STORE})",
    )
    parent.add_argument(
        "--engine",
        metavar="ENGINE",
        default=argparse.SUPPRESS,
        help="the engine that wakes the workers of a fleet: procrastinate (default: $STEPTRAIL_ENGINE, else none)",
    )
    parent.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parent.add_argument(
        "--log",
        choices=("debug", "info", "warning", "error"),
        default=argparse.SUPPRESS,
        help="print the library's log beside the answers, from this level on: with the tracebacks of what failed",
    )
    return parent
