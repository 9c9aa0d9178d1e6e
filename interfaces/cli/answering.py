"""`answer` and `step`: what people say to a run of a workflow, or an agent's external call, from any process."""

import argparse
from typing import Any

from steptrail.domain.errors import stream_name
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, Parser, json_object, json_value, named, prefix, who
from steptrail.interfaces.cli.steering import carried_out, whole_effect
from steptrail.interfaces.python.session import Session


def register(commands: Commands) -> None:
    """Add the commands."""
    answer = commands.add("answer", _answer, "Answer a node of run ID, or an external call of session ID; once.")
    answer.add_argument("id", metavar="ID", type=prefix)
    answer.add_argument(
        "what", metavar="WHAT", help="the node that asks, its request, or the effect id of a call, as `inbox` prints it"
    )
    said = answer.add_mutually_exclusive_group()
    said.add_argument("--approve", dest="approved", action="store_true", default=None, help="yes")
    said.add_argument("--reject", dest="approved", action="store_false", default=None, help="no")
    answer.add_argument("--choice", metavar="OPTION", help="one of the options of the question")
    answer.add_argument("--data", metavar="JSON", help="the input, the changes of an edit, or the result of a call")
    answer.add_argument("--failed", metavar="TEXT", help="the external call failed")
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
    if arguments.data is arguments.failed is None and all(each is None for each in said.values()):
        raise Refusal("nothing is answered: say --approve, --reject, --choice OPTION, --data JSON or --notes TEXT")
    data = None if arguments.data is None else json_value("--data", arguments.data)
    who = named(arguments, "by", "key")

    def carry(handle: Any) -> Any:
        if not isinstance(handle, Session):
            if arguments.failed is not None:
                raise Refusal("--failed: it is for an external call of an agent; a node is answered with --reject")
            return _flow(handle).answer(arguments.what, **said, data=data, **who, digest=arguments.digest)
        for_nodes = {"--approve or --reject": arguments.approved, "--choice": arguments.choice}
        for option, given in {**for_nodes, "--digest": arguments.digest}.items():
            if given is not None:
                raise Refusal(f"{option}: it is for a node of a workflow, and this is the session of an agent")
        if (arguments.data is None) == (arguments.failed is None):
            raise Refusal("an external call of an agent is answered with --data JSON or --failed TEXT")
        what = whole_effect(handle, arguments.what)
        return handle.answer(what, data, error=arguments.failed, reason=arguments.notes, **who)

    carried_out(arguments, output, carry)


def _step(arguments: argparse.Namespace, output: Output) -> None:
    said = {**named(arguments, "by", "unset", "reason", "key"), "targets": arguments.target}
    said["set"] = {} if arguments.set is None else json_object("--set", arguments.set, "variables have names")
    carried_out(arguments, output, lambda handle: _flow(handle).step(arguments.node, arguments.action, **said))


def _flow(handle: Any) -> Any:
    if isinstance(handle, Session):
        name = stream_name(handle.stream_id)
        raise Refusal(f"{name} is the session of an agent: `approve`, `deny`, `settle` and `send` answer it")
    return handle
