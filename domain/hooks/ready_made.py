"""The built-in hooks: a criterion as a hook, and a hook that blocks tools."""

from collections.abc import Iterable

from steptrail.domain.continuation.collection import voter
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.hooks.hook import Next
from steptrail.domain.hooks.state import HookState
from steptrail.domain.kernel.given import a_row, a_text


class CriterionHook:
    """A hook made of a criterion: it adds the criterion's vote and passes the state on.

    Raises `ConfigurationError` for an object that is no criterion.
    """

    def __init__(self, criterion: Criterion) -> None:
        _, self._vote = voter(criterion)

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Add the vote of the criterion, if it does not abstain, and pass the state on."""
        vote = self._vote(state)
        return next(state if vote is None else state.with_evaluation(vote))


class ToolBlockingHook:
    """Blocks the tools of these names. Register it for `pre_tool_use`.

    Raises `ConfigurationError` for what is no name.
    """

    name = "ToolBlockingHook"

    def __init__(self, blocked: Iterable[str], reason: str = "") -> None:
        # A single text is an iterable of letters, and would block nothing.
        names = (blocked,) if isinstance(blocked, str) else a_row(blocked, "the tools of a ToolBlockingHook")
        self._blocked = frozenset(a_text(name, "the name of a tool that a ToolBlockingHook blocks") for name in names)
        self._reason = a_text(reason, "the reason of a ToolBlockingHook")

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Block the current call if its tool is one of them, and pass the state on."""
        call = state.current_execution.tool_call
        blocked = call is not None and call.name in self._blocked
        return next(state.with_blocked_tool_call(self._reason) if blocked else state)
