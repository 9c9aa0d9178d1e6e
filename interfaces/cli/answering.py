"""`answer` and `step`: what people say to a run of a workflow, from any process, without the workflow."""

import argparse
from typing import Any

from steptrail.domain.errors import stream_name
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, Parser, json_object, json_value, named, prefix, who
from steptrail.interfaces.cli.steering import carried_out
from steptrail.interfaces.python.session import Session


def register(commands: Commands) -> None:
    """Add the commands."""
    answer = commands.add("answer", _answer, "Answer the question of a node of run ID; an answer is taken once.")
    answer.add_argument("id", metavar="ID", type=prefix)
    answer.add_argument("what", metavar="WHAT", help="the node that asks, or its request, as `inbox` prints it")
    said = answer.add_mutually_exclusive_group()
    said.add_argument("--approve", dest="approved", action="store_true", default=None, help="yes")
    said.add_argument("--reject", dest="approved", action="store_false", default=None, help="no")
    answer.add_argument("--choice", metavar="OPTION", help="one of the options of the question")
    answer.add_argument("--data", metavar="JSON", help="the input, or the changes of an edit, an object")
    answer.add_argument("--notes", metavar="TEXT", help="what else there is to say")
    answer.add_argument("--digest", help="only to the question of this digest, as `inbox` prints it")
    _by(answer)

    step = commands.add("step", _step, "Say how run ID goes on at a node before or after which it is held.")
    step.add_argument("id", metavar="ID", type=prefix)
    step.add_argument("node", metavar="NODE")
    step.add_argument("action", choices=("continue", "skip", "abort"))
    step.add_argument("--set", metavar="JSON", help="variables to set before the node begins, an object")
    step.add_argument("--unset", metavar="NAME", action="append", default=[], help="a variable to remove then")
    step.add_argument("--target", metavar="NODE", action="append", help="what comes next when a router is skipped")
    step.add_argument("--reason", help="why, for the record")
    _by(step)


def _by(parser: Parser) -> None:
    parser.add_argument("--by", type=who, required=True, help="who answers, for the record")
    parser.add_argument("--key", help="an idempotency key: the same key is one answer")


def _answer(arguments: argparse.Namespace, output: Output) -> None:
    said = named(arguments, "approved", "choice", "notes")
    if arguments.data is None and all(each is None for each in said.values()):
        raise Refusal("nothing is answered: say --approve, --reject, --choice OPTION, --data JSON or --notes TEXT")
    said["data"] = None if arguments.data is None else json_value("--data", arguments.data)
    said |= named(arguments, "by", "digest", "key")
    carried_out(arguments, output, lambda handle: _flow(handle).answer(arguments.what, **said))


def _step(arguments: argparse.Namespace, output: Output) -> None:
    said = {**named(arguments, "by", "unset", "reason", "key"), "targets": arguments.target}
    said["set"] = {} if arguments.set is None else json_object("--set", arguments.set, "variables have names")
    carried_out(arguments, output, lambda handle: _flow(handle).step(arguments.node, arguments.action, **said))


def _flow(handle: Any) -> Any:
    if isinstance(handle, Session):
        name = stream_name(handle.stream_id)
        raise Refusal(f"{name} is the session of an agent: `approve`, `deny`, `settle` and `send` answer it")
    return handle
