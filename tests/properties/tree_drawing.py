"""Trees of agents and workflows, drawn at random, up to three levels deep."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from steptrail import ErrorPolicy, Limits, ToolEffect
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.tools import OnUnknown
from steptrail.workflow import Budget, RunOptions
from tests.flow.kit import LEAVES
from tests.properties.drawing import rarely

_NOTHING = object()
_TELLS, _LEAVES = ErrorPolicy.ignore_tool_errors(), Limits(longest_wait=0.0)


class _Shown:
    """Shows what differs from the defaults alone, so that a tree that failed can be read."""

    def __repr__(self) -> str:
        shown = {name: each for name, each in vars(self).items() if each != getattr(type(self), name, _NOTHING)}
        return f"{type(self).__name__}({', '.join(f'{name}={each!r}' for name, each in shown.items())})"


@dataclass(frozen=True, repr=False)
class Act(_Shown):
    """Something that is done outside. It fails the first `fails` times, or always when that is below 0.

    With `makes_a_file` it returns one beside what it says.
    """

    effect: ToolEffect = ToolEffect.KEYED
    fails: int = 0
    seconds: float = 0.0
    approval: float | None = None
    timeout: float | None = None
    on_unknown: OnUnknown = OnUnknown.TELL
    makes_a_file: bool = False


@dataclass(frozen=True, repr=False)
class Elsewhere(_Shown):
    """A call of an agent that is answered outside of all processes."""

    expires: float = 3600.0


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
    """An agent whose turns name its tools by their places in `parts`. An empty turn is a model that fails.

    With `after` another model, which never fails, is asked once that many steps in a row have failed so. `compacts`
    says whether its conversation is summarised again and again, `instructed` whether it has instructions for each step.
    """

    parts: tuple["Part", ...]
    turns: tuple[tuple[int, ...], ...]
    policy: ErrorPolicy = _TELLS
    limits: Limits = _LEAVES
    below: Below = Below()
    after: int | None = None
    compacts: bool = False
    instructed: bool = False


@dataclass(frozen=True, repr=False)
class AFlow(_Shown):
    """A workflow of these parts: one after another, or all beside each other."""

    parts: tuple["Part", ...]
    in_a_row: bool = True
    on_error: bool = False
    options: RunOptions = LEAVES
    below: Below = Below()


Part = Act | Elsewhere | Ask | AnAgent | AFlow


def _acts(bound: bool) -> st.SearchStrategy[Act]:
    unbound = dict[str, Any](
        effect=st.sampled_from(
            list(ToolEffect) if bound else [ToolEffect.READ, ToolEffect.KEYED, ToolEffect.IDEMPOTENT]
        ),
        fails=st.sampled_from([0, 0, 0, -1]),
        on_unknown=st.sampled_from(OnUnknown),
        approval=rarely(st.just(3600.0)),
        makes_a_file=st.booleans(),
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
    if is_agent:
        leaf = st.one_of(leaf, st.builds(Elsewhere, st.sampled_from([5.0, 3600.0]) if bound else st.just(3600.0)))
    else:
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
    after, compacts, instructed = draw(st.sampled_from([None, 1, 2])), draw(st.booleans()), draw(st.booleans())
    return AnAgent(parts, turns, draw(_policies), draw(limits), below, after, compacts, instructed)
