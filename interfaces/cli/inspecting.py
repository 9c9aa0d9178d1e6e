"""`inspect`: pages of all that is in the store, for a browser. They only read, unless actions are allowed."""

import argparse
import asyncio
import getpass

from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.going_on import store_given
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import (
    Commands,
    count,
    engine_of,
    key,
    named,
    projection_option,
    repeated,
    store_of,
    who,
)
from steptrail.interfaces.python.loading_projections import load_projections

_LAST_PORT = 65_535


def register(commands: Commands) -> None:
    """Add the command."""
    inspect = commands.add("inspect", _inspect, "Show the runs of the store in a browser, until Ctrl-C.")
    inspect.add_argument("--port", type=_port, default=0, metavar="N", help="the port (default: one that is free)")
    inspect.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to serve (default: this machine alone); with another one the pages ask for a token",
    )
    repeated(inspect, "--mask", "KEY", "hide the values of this key, besides those that mean a secret", read=key)
    inspect.add_argument(
        "--allow-actions",
        action="store_true",
        help="let the pages answer questions, pause and stop; without it the store is opened for reading only",
    )
    inspect.add_argument(
        "--by", type=who, metavar="WHO", help="who does that, for the record (default: the name of the user)"
    )
    projection_option(inspect)
    inspect.add_argument("--shape", action="store_true", help="show no values at all, only of which kind they are")


def _inspect(arguments: argparse.Namespace, output: Output) -> None:
    from steptrail.interfaces.http.inspector.serving import serve

    def ready(address: str) -> None:
        output.answer({"url": address}, f"the inspector is at {address} until Ctrl-C")

    own = load_projections(arguments.projection)
    try:
        asyncio.run(
            serve(
                store_of(arguments),
                **named(arguments, "host", "port"),
                mask_keys=tuple(arguments.mask),
                user=(arguments.by or _user()) if arguments.allow_actions else None,
                show="shape" if arguments.shape else "values",
                store=store_given(arguments),
                projections=own,
                engine=engine_of(arguments),
                on_ready=ready,
            )
        )
    except OSError as error:
        raise Refusal(f"cannot serve {arguments.host} on port {arguments.port}: {error.strerror or error}") from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container there may be no name
        return "user"


def _port(text: str) -> int:
    number = count(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return number
