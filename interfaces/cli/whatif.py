"""`whatif`: what other limits, or another error policy, would have changed in recorded runs. No model is called."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from steptrail.domain.errors import InvalidSetting, stream_name
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import usd_text
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.going_on import store_given, typed
from steptrail.interfaces.cli.listing import PAGE, found_by, narrowed
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import FORMS, Commands, amount, count, named, option_of, prefix
from steptrail.interfaces.cli.running import limit_options, limits_given
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.interfaces.python.flow_files import BroughtCode
from steptrail.interfaces.python.loading import close_models, load_runnable
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import many
from steptrail.projections.what_if import Used, WhatIf, WhatIfAnswer, WhatIfRow
from steptrail.runtime.agent.agent import AnyAgent, is_agent

_POLICIES: Mapping[str, Callable[..., ErrorPolicy]] = {
    "stop_on_any_error": ErrorPolicy.stop_on_any_error,
    "retry_tool_errors": ErrorPolicy.retry_tool_errors,
    "ignore_tool_errors": ErrorPolicy.ignore_tool_errors,
    "retry_all": ErrorPolicy.retry_all,
}
_ORDER = (WhatIfAnswer.STOPS_EARLIER, WhatIfAnswer.UNKNOWN, WhatIfAnswer.SAME)


def register(commands: Commands) -> None:
    """Add the command."""
    whatif = commands.add("whatif", _whatif, "Say what other settings would have changed in recorded runs.")
    whatif.add_argument("ids", metavar="ID", nargs="*", type=prefix, help="sessions; all that are found without any")
    limit_options(whatif)
    says = f"the error policy, with its retries in a row: {', '.join(_POLICIES)}"
    whatif.add_argument("--error-policy", type=_policy, metavar="NAME[=N]", help=says)
    whatif.add_argument("--like", metavar="AGENT", help=f"the limits, policy and criteria of an agent: {FORMS}")
    trust = "take it that tools which get a context do not look at the limits in it"
    whatif.add_argument("--trust-tools", action="store_true", help=trust)
    found_by(whatif)
    whatif.add_argument("--limit", type=amount, metavar="N", default=PAGE, help=f"print at most N rows ({PAGE})")


def _policy(text: str) -> ErrorPolicy:
    name, equals, retries = text.partition("=")
    if (make := _POLICIES.get(name)) is None:
        raise argparse.ArgumentTypeError(f"{name!r} is no error policy: there are {', '.join(_POLICIES)}")
    policy = make()
    return policy.with_max_retries(count(retries)) if equals else policy


def _whatif(arguments: argparse.Namespace, output: Output) -> None:
    async def ask(trail: Steptrail) -> WhatIf:
        async with AsyncExitStack() as stack:
            like: AnyAgent | None = None
            if arguments.like is not None:
                given = await stack.enter_async_context(load_runnable(arguments.like, BroughtCode(())))
                stack.push_async_callback(close_models, given)
                if not is_agent(given):
                    raise Refusal(f"--like {arguments.like} is a workflow, and a what-if is about agents")
                like = given
            ids = [stream_name((await trail.find_any(each)).stream_id) for each in arguments.ids]
            try:
                return await trail.what_if(
                    *ids,
                    limits=limits_given(arguments) or None,
                    like=like,
                    **named(arguments, "error_policy", "trust_tools"),
                    **await narrowed(trail, arguments),
                )
            except InvalidSetting as error:
                raise Refusal(f"{option_of(error.field)}: {error.why}") from error

    found = in_store(arguments, ask)
    if output.as_json:
        output.data(found.to_dict())
        return
    rows = sorted(found.rows, key=lambda row: (not row.is_wrong, _ORDER.index(row.answer)))
    cells = [_cells(row) for row in rows[: arguments.limit]]
    output.table(["EXECUTION", "AGENT", "ENDED", "ANSWER", "SAVES", "WHY"], cells)
    if len(rows) > arguments.limit:
        output.note(f"steptrail: these are {arguments.limit} of {len(rows):,}: --limit prints more, --json all")
    output.line()
    for line in _summary(found):
        output.line(line)
    for row in rows[: arguments.limit]:
        if (paid := _paid(row, arguments)) is not None:
            output.line(f"to know {row.execution_id}: {paid}")


def _cells(row: WhatIfRow) -> list[str]:
    ended = how_it_stopped(row.stop_reason, answered=row.answered) or (row.status or "")
    match row.answer:
        case WhatIfAnswer.SAME:
            answer = "same"
        case WhatIfAnswer.STOPS_EARLIER:
            answer = f"stops after {many(row.step or 0, 'step')}" + (", wrongly" if row.is_wrong else "")
        case WhatIfAnswer.UNKNOWN:
            answer = "unknown" if row.version is None else f"unknown from event {row.version}"
    saves = _used(row.saved) if row.answer is WhatIfAnswer.STOPS_EARLIER else ""
    return [row.execution_id or row.session_id, row.agent, ended, answer, saves, row.why]


def _used(used: Used) -> str:
    cost = "" if used.cost is None else f", {usd_text(used.cost)} USD"
    return f"{many(used.steps, 'step')}, {many(used.tokens, 'token')}{cost}, {used.active_seconds:.2f} s active"


def _summary(found: WhatIf) -> list[str]:
    earlier, unknown = found.count(WhatIfAnswer.STOPS_EARLIER), found.count(WhatIfAnswer.UNKNOWN)
    stops = f"{earlier:,}, {found.wrong:,} of them before an answer that came later" if earlier else "0"
    return [
        f"in all       {many(len(found.rows), 'execution')}",
        f"same         {found.count(WhatIfAnswer.SAME):,}",
        f"stop earlier {stops}",
        f"unknown      {f'{unknown:,}: nothing is counted of what nobody has recorded' if unknown else '0'}",
        f"would save   {_used(found.saved)}",
    ]


def _paid(row: WhatIfRow, arguments: argparse.Namespace) -> str | None:
    """Return the command that would pay for what is unknown; None where none would tell it."""
    if row.fork_at is None:
        return None
    store = store_given(arguments)
    words = [word for name, value in limits_given(arguments).items() for word in (option_of(name), str(value))]
    if row.can_be_retried and arguments.error_policy is None and arguments.like is None:
        return f"`{typed(store, 'retry', 'AGENT', row.session_id, options=words)}`"
    fork = typed(store, "fork", row.session_id, options=("--at", str(row.fork_at)))
    return f"`{fork}`, and `resume` the fork with the other settings"
