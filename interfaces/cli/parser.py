"""The grammar of the command line: one parser, `--store` and `--json` on either side of the command."""

import argparse
import os
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output

__all__ = [
    "Commands",
    "Handler",
    "Parser",
    "amount",
    "context_option",
    "count",
    "option_of",
    "prefix",
    "seconds",
    "store_of",
]

Handler = Callable[[argparse.Namespace, Output], int]
"""Carries out a parsed command and returns the exit code."""

_MOST_DIGITS = 18
_DEFAULT_STORE = "sqlite:///steptrail.db"


class Parser(argparse.ArgumentParser):
    """Refuses with one line instead of ending the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise `Refusal`."""
        raise Refusal(f"{message} (see `{self.prog} --help`)")


class Commands:
    """The commands as they register themselves."""

    def __init__(self) -> None:
        everywhere = _everywhere()
        self.parser = Parser(
            prog="steptrail",
            description="Run LLM agents as event-sourced state machines that can always say why they stopped.",
            epilog="Ids may be shortened to a unique prefix. AGENT is FILE.py[:NAME] or package.module[:NAME]. "
            "Exit codes of every command: 2 for what was wrong, or is not there, 7 for a store that is locked or away: "
            "try again.",
            parents=[everywhere],
        )
        self.parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and end")
        self._everywhere = everywhere
        self.names = set[str]()
        self._commands = self.parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")

    def add(self, name: str, handler: Handler, summary: str, *, exits: str | None = None) -> Parser:
        """Add a command and return its parser; `exits` says what its exit codes mean."""
        parser: Parser = self._commands.add_parser(
            name, help=summary, description=summary, epilog=exits, parents=[self._everywhere]
        )
        parser.set_defaults(handler=handler)
        self.names.add(name)
        return parser


class _Version(argparse.Action):
    """Prints the version. Looked up only when it is asked for: that takes longer than to parse all else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and end."""
        from importlib.metadata import version

        print(f"steptrail {version('steptrail')}")
        parser.exit()


def store_of(arguments: argparse.Namespace) -> str:
    """Return the address of the store: from the command, the environment, or the default."""
    given: str | None = getattr(arguments, "store", None)
    return given or os.environ.get("STEPTRAIL_STORE") or _DEFAULT_STORE


def option_of(setting: str) -> str:
    """Return the option that sets a setting."""
    return f"--{setting.replace('_', '-')}"


def count(text: str) -> int:
    """Read a whole number from 0, and no larger than a store can hold."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def amount(text: str) -> int:
    """Read a whole number from 1."""
    if (number := count(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def prefix(text: str) -> str:
    """Read an id or the beginning of one. An empty text is the beginning of every id, and is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the id is empty")
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


def context_option(parser: Parser) -> None:
    """Add the option that says something of the run."""
    parser.add_argument("--context", metavar="JSON", type=_json, help="what to say of the run: the agent's context")


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"it is no JSON: {error}") from None


def _everywhere() -> Parser:
    # Without a default here the value that stands before the command survives the parser behind it.
    parent = Parser(add_help=False)
    parent.add_argument(
        "--store",
        metavar="URL",
        default=argparse.SUPPRESS,
        help=f"where the events are (default: $STEPTRAIL_STORE, else {_DEFAULT_STORE})",
    )
    parent.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parent.add_argument(
        "--log",
        choices=("debug", "info", "warning", "error"),
        default=argparse.SUPPRESS,
        help="print the library's log beside the answers, from this level on: with the tracebacks of what failed",
    )
    return parent
