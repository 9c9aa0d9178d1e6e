"""`why`: the exact reason why a session stopped, or why it has not; so of a run of a workflow."""

import argparse

from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.going_on import store_given
from steptrail.interfaces.cli.kinds import SHOWN
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, count, prefix
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.kinds import Explanation
from steptrail.projections.rendering import owner_text
from steptrail.runtime.kernel.collector import collector_off


def register(commands: Commands) -> None:
    """Add the command."""
    why = commands.add("why", _why, "Say why session ID stopped, or why it has not.")
    why.add_argument("id", metavar="ID", type=prefix)
    why.add_argument("--execution", type=count, metavar="N", help="its N-th execution (default: the newest)")


@collector_off()
def _why(arguments: argparse.Namespace, output: Output) -> None:
    async def asked(trail: Steptrail) -> tuple[str, Explanation]:
        handle = await trail.find_any(arguments.id)
        return handle.stream_id, await handle.why(execution=arguments.execution)

    stream, explained = in_store(arguments, asked)
    shown, store = SHOWN.of(stream), store_given(arguments)
    if shown is None:
        _print_any(output, explained)
    elif output.as_json:
        output.data(shown.why_data(explained, store))
    else:
        shown.print_why(output, explained, store)


def _print_any(output: Output, explained: Explanation) -> None:
    """Print what every kind of machine can say of itself."""
    if output.as_json:
        output.data(explained.to_dict())
        return
    output.line(one_line(explained.verdict))
    output.line(f"owner       {owner_text(explained.is_owned)}")
    if explained.waits_for:
        output.line(f"waits for   {one_line(explained.waits_for)}")
    versions = ", ".join(f"{what} {version}" for what, version in explained.events.items())
    output.line(f"events      {versions}")
