"""The way in: parse, carry out, and turn everything that the user can cause into one line and an exit code."""

import argparse
import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from functools import cache
from types import FrameType

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    CorruptRecord,
    NotExported,
    OwnershipLost,
    SessionBusy,
    SessionErased,
    SessionNotFound,
    SteptrailError,
    StoreAway,
    StoreFull,
    StoreLocked,
    ViewsBusy,
)
from steptrail.interfaces.cli import (
    answering,
    doctor,
    due,
    erasing,
    export,
    fleet,
    flow_command,
    inbox,
    inspecting,
    listing,
    reading,
    running,
    stats,
    steering,
    tail,
    views,
    whatif,
    why,
    working,
)
from steptrail.interfaces.cli.ending import end_with, endings
from steptrail.interfaces.cli.exits import Exit, Refusal
from steptrail.interfaces.cli.going_on import store_given, typed
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, Handler
from steptrail.interfaces.python.flow_files import InvalidFlowFile


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; `argv` is without the program's name."""
    output = Output(sys.stdout, sys.stderr)
    with _ending_when_asked() as asked:
        code = _carried_out(argv, output)
    return end_with(Exit.TERMINATED if code == Exit.INTERRUPTED and asked else code)


@cache
def _commands() -> Commands:
    commands = Commands()
    acting, lists = (running, working, steering, answering), (listing, due, fleet, inbox, reading)
    for group in (*acting, *lists, why, whatif, tail, export, flow_command, erasing, doctor, views, stats, inspecting):
        group.register(commands)
    return commands


def _carried_out(argv: Sequence[str] | None, output: Output) -> int:
    arguments = argparse.Namespace()
    try:
        _commands().parser.parse_args(argv, arguments)
        output.as_json = getattr(arguments, "json", False)
        handler: Handler = arguments.handler
        level = getattr(arguments, "log", None) or getattr(arguments, "usual_log", None)
        # What the code of an agent prints is no part of the JSON.
        printed = redirect_stdout(sys.stderr) if output.as_json else nullcontext()
        with _shown_log(output, level), printed:
            code = handler(arguments, output) or Exit.OK
        if output.failure is not None:
            return _refused(output, f"the answer could not be written: {output.failure}", Exit(code or Exit.REFUSED))
        return code
    except SystemExit as ended:
        if "handler" not in arguments:  # the end of `--help`
            return Exit.OK
        due = typed(store_given(arguments), "due")
        why_not = f"code that was called ends the program (exit {ended.code}); `{due}` lists a run that it cut off"
        return _refused(output, why_not, Exit.REFUSED)
    except (SessionBusy, OwnershipLost) as error:
        return _refused(output, _busy(error, arguments), Exit.BUSY)
    except (NotExported, StoreLocked, StoreAway, StoreFull) as error:
        return _refused(output, str(error), Exit.AWAY)
    except AppendOutcomeUnknown as error:
        # The id that is given with an input is that of a session, or of a workflow without the `flow:` before it.
        store, session = store_given(arguments), None if "input" in arguments else getattr(arguments, "id", None)
        look = typed(store, "show", session, options=["--events"]) if session else typed(store, "runs")
        return _refused(output, f"{error}; `{look}` shows whether it has", Exit.UNKNOWN)
    except SessionErased as error:
        return _refused(output, str(error), Exit.REFUSED)
    except SessionNotFound as error:
        return _refused(output, f"{error}: `steptrail runs` lists the ones there are", Exit.REFUSED)
    except CorruptRecord as error:
        return _refused(output, f"{error}; `steptrail doctor` checks every session", Exit.REFUSED)
    except InvalidFlowFile as error:
        for line in error.lines:
            _refused(output, line, Exit.REFUSED)
        return Exit.REFUSED
    except (Refusal, SteptrailError) as error:
        return _refused(output, str(error), Exit.REFUSED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return Exit.INTERRUPTED


@contextmanager
def _ending_when_asked() -> Generator[list[int]]:
    """Have SIGTERM and SIGHUP end what runs as Ctrl-C does, so that it gives up its leases and its temporary files.

    Yields the list that the signal is put into. A command that has a way of its own to end, such as a worker, takes
    the signals itself.
    """
    asked = list[int]()

    def end(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        interrupt = signal.getsignal(signal.SIGINT)  # that of `asyncio.run`, while there is one
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            asking = endings()
            for each in (signal.SIGINT, *asking):  # a worker takes Ctrl-C too
                before = signal.getsignal(each)
                stack.callback(signal.signal, each, signal.SIG_DFL if before is None else before)
            for each in asking:
                signal.signal(each, end)
        yield asked


class _Notes(logging.Handler):
    """Prints records beside the answers, a line of theirs at a time."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        first, *others = self.format(record).splitlines() or [""]
        self._output.note(first)
        for line in others:
            self._output.note(f"  {line}")


@contextmanager
def _shown_log(output: Output, level: str | None) -> Generator[None]:
    if level is None:
        yield
        return
    logger, notes = logging.getLogger("steptrail"), _Notes(output)
    before = logger.level
    logger.addHandler(notes)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(before)


def _refused(output: Output, why_not: str, code: Exit) -> Exit:
    output.note(f"steptrail: {one_line(why_not)}")
    return code


def _busy(error: SessionBusy | OwnershipLost, arguments: argparse.Namespace) -> str:
    if isinstance(error, OwnershipLost | ViewsBusy):
        return str(error)
    by, store = f" by {error.owner}" if error.owner else "", store_given(arguments)
    agent, use = getattr(arguments, "agent", None) or "AGENT", getattr(arguments, "use", ())
    stop = typed(store, "stop", error.session)
    code = [word for each in use for word in ("--use", each)]
    take_over = typed(store, "resume", agent, error.session, options=(*code, "--take-over"))
    return f"session {error.session!r} is being run{by}: wait for it, `{stop}`, or `{take_over}`"
