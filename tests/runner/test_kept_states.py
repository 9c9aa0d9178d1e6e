"""The runner changes its state in place where nobody sees it: a state that was shown stays what it was."""

from collections.abc import Callable
from typing import cast

import pytest

from steptrail import AgentBuilder, HookType
from steptrail.continuation import CallableCriterion, StateView
from steptrail.domain.agent.state import AgentState
from steptrail.testing import Reply, call, calls
from tests.runner.kit import agent_of, hook, run

KINDS = tuple(HookType)


class Album:
    """Keeps every state it is shown, and what that looked like then."""

    def __init__(self) -> None:
        self.kept: list[tuple[AgentState, object]] = []

    def keep(self, view: StateView) -> bool:
        state = cast("AgentState", view)
        self.kept.append((state, picture(state)))
        return True


def picture(state: AgentState) -> object:
    return (
        repr(state),
        list(state.messages),
        list(state.steps),
        state.tool_executions,
        state.pending_votes,
        state.last_continuation_outcome,
        state.usage,
        state.cumulative_execution_seconds,
    )


def with_a_criterion(album: Album) -> AgentBuilder:
    return agent_of(SCRIPT).with_criteria(CallableCriterion(album.keep, name="album"))


def with_hooks(album: Album) -> AgentBuilder:
    def look(state: AgentState) -> None:
        album.keep(state)

    return agent_of(SCRIPT, *((kind, hook(kind.value, look)) for kind in KINDS))


SCRIPT: list[Reply] = [call("add", a=1, b=2), calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "done"]


@pytest.mark.parametrize("keeping", [with_a_criterion, with_hooks])
async def test_a_state_that_a_criterion_or_a_hook_keeps_never_changes(keeping: Callable[[Album], AgentBuilder]) -> None:
    album = Album()
    assert (await run(keeping(album).build())).ending == ("completed", "completed")
    assert len(album.kept) >= 4
    for state, then in album.kept:
        assert picture(state) == then
