"""`start` and `work`: have an input answered by a worker, and be one, until Ctrl-C or SIGTERM; then drain."""

import argparse
import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from typing import Any

from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.errors import stream_name
from steptrail.domain.kernel.by_prefix import id_of, prefix_of
from steptrail.interfaces.cli.ending import PATIENCE_SECONDS, endings, to_the_end, when_asked_to_end
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import (
    FORMS,
    Commands,
    amount,
    asking_options,
    engine_of,
    json_value,
    most,
    named,
    projection_option,
    repeated,
    seconds,
    store_of,
    use_option,
)
from steptrail.interfaces.python.flow_files import BroughtCode, is_flow_file
from steptrail.interfaces.python.loading import close_models, load_runnable
from steptrail.interfaces.python.loading_projections import load_projections
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent


def register(commands: Commands) -> None:
    """Add the command."""
    start = commands.add("start", _start, "Have INPUT answered with AGENT by a worker; repeating the command is safe.")
    asking_options(start)

    work = commands.add("work", _work, "Carry on what is due with AGENT, until Ctrl-C or SIGTERM.")
    # Nobody waits for its answer: what goes wrong would be told to nobody.
    work.set_defaults(usual_log="warning")
    work.add_argument("agents", metavar="AGENT", nargs="+", help=FORMS)
    use_option(work)
    projection_option(work)
    work.add_argument("--concurrency", type=amount, metavar="N", default=8, help="at most N sessions at once (8)")
    for of in ("agent", "tenant"):
        says = f"at most N sessions of one {of}, or of the {of} NAME, at once"
        repeated(work, f"--per-{of}", "[NAME=]N", says, read=most)
    work.add_argument("--strict", action="store_true", help="leave a session to others that another version began")
    work.add_argument("--grace", type=seconds, metavar="S", default=10.0, help="seconds to let calls end then (10)")


def _start(arguments: argparse.Namespace, output: Output) -> None:
    async def started() -> str:
        async with load_runnable(arguments.agent, BroughtCode(arguments.use)) as given:
            is_agent = isinstance(given, Agent)
            value: Any = arguments.input if is_agent else json_value("the INPUT of a workflow", arguments.input)
            said = named(arguments, "key", "by", "context", "metadata")
            async with Steptrail.open(store_of(arguments), engine=engine_of(arguments)) as trail:
                return (await trail.start(given, value, session=arguments.id, **said)).stream_id

    stream = asyncio.run(started())
    name = "sessionId" if prefix_of(stream) == STREAM_PREFIX else "flowId"
    output.answer({name: id_of(stream)}, stream_name(stream))


def _work(arguments: argparse.Namespace, output: Output) -> None:
    to_the_end(_worked(arguments, output))


async def _worked(arguments: argparse.Namespace, output: Output) -> None:
    files = [each for each in arguments.agents if is_flow_file(each)]
    if arguments.use and not files:
        raise Refusal("--use: every AGENT brings its own code: it is for workflows in YAML or JSON")
    code = BroughtCode(arguments.use)
    blocks = [load_runnable(each, code if each in files else None) for each in arguments.agents]
    own = load_projections(arguments.projection)
    engine = engine_of(arguments)
    if engine is not None:
        # Its packages tell of a server that was away with tracebacks; what matters of that, our own log says.
        for name in ("procrastinate", "psycopg"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    async with AsyncExitStack() as stack:
        trail = await stack.enter_async_context(Steptrail.open(store_of(arguments), engine=engine, projections=own))
        # A worker is there all the time, so what people look at is as new as the log.
        await stack.enter_async_context(trail.views.kept_going())
        agents = [await stack.enter_async_context(block) for block in blocks]
        for agent in agents:
            stack.push_async_callback(close_models, agent)
        # Until here the command ends as any other does: what an agent opens may take for ever.
        ending = asyncio.Event()
        patience = max(arguments.grace, PATIENCE_SECONDS)
        when_asked_to_end(ending.set, (*endings(), signal.SIGINT), patience=patience)
        async with trail.work(
            *agents,
            per_agent=dict(arguments.per_agent),
            per_tenant=dict(arguments.per_tenant),
            **named(arguments, "concurrency", "grace", "strict"),
        ) as worker:
            woken = f", woken by {engine.partition('+')[0].partition('?')[0]}" if engine is not None else ""
            output.note(f"steptrail: working with {', '.join(agent.name for agent in agents)}{woken}")
            await ending.wait()
            output.note(f"steptrail: draining {len(worker.running)} sessions")
