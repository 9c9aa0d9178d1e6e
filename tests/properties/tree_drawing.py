"""Trees of agents and workflows, drawn at random, up to three levels deep, and the code that they run."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, ToolContext, ToolEffect, tool
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.tools import ApprovalRule, OnUnknown
from steptrail.testing import Reply, ScriptedModel, calls, say
from steptrail.tools import SubagentTool
from steptrail.workflow import Budget, BuiltWorkflow, FailureClass, FlowTool, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import LEAVES
from tests.properties.drawing import PRICES, rarely
from tests.runner.kit import HandClock

__all__ = ["AFlow", "Act", "AnAgent", "Ask", "Outside", "drawn_trees", "made"]

_NOTHING = object()
_TELLS, _LEAVES = ErrorPolicy.ignore_tool_errors(), Limits(longest_wait=0.0)


@dataclass
class Outside:
    """The outside world: counts what was begun and done there by the ids of effects, and takes its time."""

    clock: HandClock
    begun: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])
    moment: Callable[[], Awaitable[None]] | None = None

    async def do(self, act: "Act", effect: str) -> str:
        self.begun[effect] += 1
        if self.moment is not None:
            await self.moment()
        self.clock.advance(act.seconds)
        if act.fails < 0 or self.failed[effect] < act.fails:
            self.failed[effect] += 1
            raise RuntimeError("no")
        self.done[effect] += 1
        return "done"


class _Shown:
    """Shows what differs from the defaults alone, so that a tree that failed can be read."""

    def __repr__(self) -> str:
        shown = {name: each for name, each in vars(self).items() if each != getattr(type(self), name, _NOTHING)}
        return f"{type(self).__name__}({', '.join(f'{name}={each!r}' for name, each in shown.items())})"


@dataclass(frozen=True, repr=False)
class Act(_Shown):
    """Something that is done outside. It fails the first `fails` times, or always when that is below 0."""

    effect: ToolEffect = ToolEffect.KEYED
    fails: int = 0
    seconds: float = 0.0
    approval: float | None = None
    timeout: float | None = None
    on_unknown: OnUnknown = OnUnknown.TELL


@dataclass(frozen=True, repr=False)
class Ask(_Shown):
    """A question to a person."""

    expires: float | None = None


@dataclass(frozen=True, repr=False)
class Below(_Shown):
    """How a stream is run that is below another one."""

    timeout: float | None = None
    tries: int = 1
    tokens: int | None = None
    approval: float | None = None


@dataclass(frozen=True, repr=False)
class AnAgent(_Shown):
    """An agent whose turns name its tools by their places in `parts`. An empty turn is a model that fails."""

    parts: tuple["Part", ...]
    turns: tuple[tuple[int, ...], ...]
    policy: ErrorPolicy = _TELLS
    limits: Limits = _LEAVES
    below: Below = Below()


@dataclass(frozen=True, repr=False)
class AFlow(_Shown):
    """A workflow of these parts: one after another, or all beside each other."""

    parts: tuple["Part", ...]
    in_a_row: bool = True
    on_error: bool = False
    options: RunOptions = LEAVES
    below: Below = Below()


Part = Act | Ask | AnAgent | AFlow


def made(part: AnAgent | AFlow, world: Outside, name: str = "r") -> Agent[Any] | BuiltWorkflow:
    """Return the code of a tree."""
    return _agent(part, world, name) if isinstance(part, AnAgent) else _flow(part, world, name)


def _agent(drawn: AnAgent, world: Outside, name: str) -> Agent[Any]:
    tools = [_tool(part, world, f"{name}{at}") for at, part in enumerate(drawn.parts)]
    script: list[Reply] = [
        calls(*[(tools[at].spec.name, {"prompt": "go"} if isinstance(drawn.parts[at], AnAgent) else {}) for at in turn])
        if turn
        else RuntimeError("no line")
        for turn in drawn.turns
    ]
    builder = AgentBuilder(name).with_model(ScriptedModel([*script, *[say(f"{name} says so")] * 50]))
    builder.with_error_policy(drawn.policy).with_limits(drawn.limits).with_prices(PRICES)
    return builder.with_tools(*tools).build() if tools else builder.build()


def _tool(part: Part, world: Outside, name: str) -> Any:
    if isinstance(part, AnAgent | AFlow):
        kind: Any = SubagentTool if isinstance(part, AnAgent) else FlowTool
        rule = False if part.below.approval is None else ApprovalRule(expires=part.below.approval)
        return kind(made(part, world, name), timeout=part.below.timeout, approval=rule)
    assert isinstance(part, Act)

    @tool(
        name=name,
        effect=part.effect,
        timeout=part.timeout,
        on_unknown=part.on_unknown,
        approval=False if part.approval is None else ApprovalRule(expires=part.approval),
    )
    async def act(context: ToolContext) -> str:
        """Act."""
        return await world.do(part, context.effect_id)

    return act


def _flow(drawn: AFlow, world: Outside, name: str) -> BuiltWorkflow:
    written = Workflow(name, options=drawn.options)
    for at, part in enumerate(drawn.parts):
        node = f"n{at}"
        more: dict[str, Any] = {"output": node, **({"on_error": "continue"} if drawn.on_error else {})}
        if isinstance(part, Ask):
            written.human(node, prompt="Yes?", expires=part.expires, **more)
            continue
        if isinstance(part, Act):
            written.tool(node, _tool(part, world, f"{name}{at}"), retry=_tries(3), **more)
            continue
        more |= {"timeout": part.below.timeout, "retry": _tries(part.below.tries, FailureClass.CHILD)}
        if part.below.tokens is not None:
            more["budget"] = Budget(max_total_tokens=part.below.tokens)
        code = made(part, world, f"{name}{at}")
        if isinstance(code, BuiltWorkflow):
            written.flow(node, code, **more)
        else:
            written.agent(node, code, prompt="go", **more)
    if drawn.in_a_row and len(drawn.parts) > 1:
        written.chain(*[f"n{at}" for at in range(len(drawn.parts))])
    return written.build()


def _tries(most: int, *of: FailureClass) -> RetryPolicy:
    """Return a policy under which a crash costs no try."""
    return RetryPolicy(max_attempts=most, retry_on=of or None, count_interrupted=False)


def _acts(bound: bool) -> st.SearchStrategy[Act]:
    unbound = dict[str, Any](
        effect=st.sampled_from(
            list(ToolEffect) if bound else [ToolEffect.READ, ToolEffect.KEYED, ToolEffect.IDEMPOTENT]
        ),
        fails=st.sampled_from([0, 0, 0, -1]),
        on_unknown=st.sampled_from(OnUnknown),
        approval=rarely(st.just(3600.0)),
    )
    if not bound:
        return st.builds(Act, **unbound)
    return st.builds(
        Act,
        **{
            **unbound,
            "fails": st.sampled_from([0, 0, 0, 1, 2, -1]),
            "approval": rarely(st.sampled_from([5.0, 3600.0])),
            "seconds": st.sampled_from([0.0, 0.0, 1.0, 20.0]),
            "timeout": rarely(st.just(30.0)),
        },
    )


def _belows(bound: bool) -> st.SearchStrategy[Below]:
    if not bound:
        return st.builds(Below, tries=st.sampled_from([1, 2]), approval=rarely(st.just(3600.0)))
    return st.builds(
        Below,
        timeout=st.sampled_from([None, None, 10.0, 50.0]),
        tries=st.sampled_from([1, 2, 3]),
        tokens=rarely(st.sampled_from([1, 20, 100])),
        approval=rarely(st.sampled_from([5.0, 3600.0])),
    )


_policies = st.sampled_from(
    [
        ErrorPolicy.ignore_tool_errors(),
        ErrorPolicy.stop_on_any_error(),
        ErrorPolicy.retry_all(2).with_backoff(Backoff.linear(2.0)),
    ]
)


@st.composite
def drawn_trees(draw: st.DrawFn, levels: int = 3, *, bound: bool = True) -> AnAgent | AFlow:
    """Draw an agent or a workflow with streams below it. One that is `bound` has limits, of time too."""
    is_agent = draw(st.booleans())
    leaf: st.SearchStrategy[Part] = _acts(bound)
    if not is_agent:
        leaf = st.one_of(leaf, st.builds(Ask, expires=rarely(st.just(5.0)) if bound else st.none()))
    if levels > 1:
        leaf = st.one_of(leaf, drawn_trees(levels - 1, bound=bound), drawn_trees(levels - 1, bound=bound))
    parts = tuple(draw(st.lists(leaf, min_size=1, max_size=2)))
    if levels == 3 and not any(isinstance(part, AnAgent | AFlow) for part in parts):
        parts = (*parts, draw(drawn_trees(2, bound=bound)))
    below = draw(_belows(bound))
    if not is_agent:
        options = st.just(LEAVES)
        if bound:
            options = st.builds(
                RunOptions,
                longest_wait=st.just(0.0),
                continue_on_error=st.booleans(),
                timeout=rarely(st.just(30.0)),
                cumulative_timeout=rarely(st.just(30.0)),
                budget=rarely(st.builds(Budget, max_total_tokens=st.sampled_from([10, 40, 100]))),
                stop_grace=st.sampled_from([0.0, 0.01]),
            )
        return AFlow(parts, not bound or draw(st.booleans()), draw(st.booleans()), draw(options), below)
    some = st.lists(st.integers(0, len(parts) - 1), max_size=2, min_size=0 if bound else 1).map(tuple)
    limits = st.just(_LEAVES)
    if bound:
        limits = st.builds(
            Limits,
            longest_wait=st.just(0.0),
            max_steps=st.sampled_from([None, None, 1, 2, 4]),
            max_tokens=rarely(st.sampled_from([15, 40, 100])),
            timeout=rarely(st.just(30.0)),
            cumulative_timeout=rarely(st.just(30.0)),
            stop_grace=st.sampled_from([0.0, 0.01]),
        )
    turns = tuple(draw(st.lists(some, min_size=1, max_size=2)))
    if levels == 3:
        turns = ((len(parts) - 1,), *turns)
    return AnAgent(parts, turns, draw(_policies), draw(limits), below)
