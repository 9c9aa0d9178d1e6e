from collections.abc import Awaitable

import msgspec
import pytest

from steptrail.domain.agent.events import EvaluationsRecorded, HooksRan, MetadataChanged, ToolCallBlocked
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.shared.run import StopReason
from steptrail.errors import ConfigurationError
from steptrail.hooks import CallableHook, CallableMatcher, Hook, HookStack, HookState, HookType, Next, ToolNameMatcher
from tests.unit.hooks.given import at_boundary, in_calls, process


class Notes:
    """Writes its name behind those that ran before it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        return next(state.with_metadata("seen", f"{state.metadata.get('seen', '')}{self.name}"))


class NotesLater(Notes):
    async def handle(self, state: HookState, next: Next, /) -> HookState:  # type: ignore[override]  # noqa: A002
        return super().handle(state, next)


class Forgets:
    """Changes the state and neither passes it on nor returns the change."""

    name = "forgets"

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        state.with_metadata("seen", f"{state.metadata.get('seen', '')}f")
        return state


class Raises:
    name = "raises"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        raise self._error


class ReturnsNothing:
    name = "returns nothing"

    def handle(self, state: HookState, next: Next, /) -> HookState | Awaitable[HookState]:  # noqa: A002
        return None  # type: ignore[return-value]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("there are no words")


def stack_of(*hooks: Hook, hook_type: HookType = HookType.AFTER_STEP) -> HookStack:
    stack = HookStack()
    for hook in hooks:
        stack = stack.with_hook(hook_type, hook)
    return stack


async def order(stack: HookStack) -> str:
    """Return the names in the order in which they ran, as the hooks themselves noted it."""
    *events, mark = await process(stack, HookType.AFTER_STEP, at_boundary())
    assert isinstance(mark, HooksRan)
    noted = [event.changes["seen"] for event in events if isinstance(event, MetadataChanged)]
    return str(noted[-1]) if noted else ""


async def test_hooks_run_by_priority_downwards_and_then_as_they_were_added() -> None:
    stack = HookStack()
    for name, priority in [("a", 0), ("b", 10), ("c", 0), ("d", -5), ("e", 10)]:
        stack = stack.with_hook(HookType.AFTER_STEP, Notes(name), priority=priority)
    assert await order(stack) == "beacd"
    assert [entry.name for entry in stack.registered] == list("beacd")


def test_adding_a_hook_leaves_the_stack_as_it_was() -> None:
    empty = HookStack()
    empty.with_hook(HookType.AFTER_STEP, Notes("a"))
    assert empty.registered == ()


async def test_only_hooks_of_the_type_run() -> None:
    stack = stack_of(Notes("a")).with_hook(HookType.BEFORE_STEP, Notes("b"))
    assert await order(stack) == "a"


async def test_sync_and_async_hooks_take_turns() -> None:
    assert await order(stack_of(Notes("a"), NotesLater("b"), Notes("c"))) == "abc"


async def test_a_hook_that_forgets_to_pass_on_stops_nobody_and_loses_nothing() -> None:
    assert await order(stack_of(Notes("a"), Forgets(), Notes("b"))) == "afb"


@pytest.mark.parametrize("broken", [Raises(RuntimeError("boom")), ReturnsNothing()])
async def test_the_others_run_after_one_that_fails(broken: Hook) -> None:
    stack = stack_of(Notes("a"), broken, Notes("b"))
    *events, mark = await process(stack, HookType.AFTER_STEP, at_boundary())
    assert await order(stack) == "ab"
    assert isinstance(mark, HooksRan)
    assert mark.hooks == ("a", broken.name, "b")  # type: ignore[attr-defined]
    (failed,) = [event for event in events if isinstance(event, EvaluationsRecorded)]
    assert failed.hook == broken.name  # type: ignore[attr-defined]
    (vote,) = failed.votes
    assert (vote.decision, vote.stop_reason) == (ContinuationDecision.FORBID, StopReason.ERROR)
    assert {"exception", "message"} <= set(vote.context) <= {"exception", "message", "frames"}


async def test_what_a_hook_changed_before_it_failed_has_happened() -> None:
    def change_and_fail(state: HookState) -> HookState:
        state.with_metadata("k", 1)
        raise RuntimeError("boom")

    events = await process(stack_of(CallableHook(change_and_fail)), HookType.AFTER_STEP, at_boundary())
    assert [type(event) for event in events] == [MetadataChanged, EvaluationsRecorded, HooksRan]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("boom"), "the hook raises failed: RuntimeError: boom"),
        (RuntimeError(), "the hook raises failed: RuntimeError"),
        (KeyError("path"), "the hook raises failed: KeyError: 'path'"),
        (Unspeakable(), "the hook raises failed: Unspeakable"),
        (RuntimeError("half \ud83d"), "the hook raises failed: RuntimeError: half \\ud83d"),
    ],
)
async def test_a_hook_that_fails_before_a_tool_blocks_it_whatever_its_exception_is_like(
    error: Exception, said: str
) -> None:
    stack = stack_of(Raises(error), hook_type=HookType.PRE_TOOL_USE)
    events = await process(stack, HookType.PRE_TOOL_USE, in_calls("read"), position=0)
    blocked = [event for event in events if isinstance(event, ToolCallBlocked)]
    assert blocked == [ToolCallBlocked(position=0, reason=said, hook="raises")]
    for event in events:
        msgspec.json.encode(event)


async def test_what_is_logged_of_an_exception_can_be_written_whatever_its_text_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stack = stack_of(Raises(RuntimeError("half \ud83d")), hook_type=HookType.PRE_TOOL_USE)
    await process(stack, HookType.PRE_TOOL_USE, in_calls("read"), position=0)
    assert caplog.text.encode()
    assert "RuntimeError: half \\ud83d" in caplog.text


async def test_two_hooks_that_fail_before_a_tool_block_it_once() -> None:
    stack = stack_of(Raises(RuntimeError("one")), Raises(RuntimeError("two")), hook_type=HookType.PRE_TOOL_USE)
    events = await process(stack, HookType.PRE_TOOL_USE, in_calls("read"), position=0)
    assert [type(event) for event in events] == [EvaluationsRecorded, ToolCallBlocked, EvaluationsRecorded, HooksRan]


async def test_a_hook_whose_matcher_says_no_does_not_run_and_is_not_in_the_record() -> None:
    stack = HookStack()
    for name, tool in [("a", "read"), ("b", "write")]:
        stack = stack.with_hook(HookType.PRE_TOOL_USE, Notes(name), matcher=ToolNameMatcher(tool))
    *changes, mark = await process(stack, HookType.PRE_TOOL_USE, in_calls("read", "write"), position=1)
    assert [type(event) for event in changes] == [MetadataChanged]
    assert mark == HooksRan(hook_type="pre_tool_use", step=0, position=1, hooks=("b",))


async def test_a_matcher_that_raises_is_its_hooks_failure() -> None:
    def broken(state: HookState, hook_type: HookType) -> bool:
        raise RuntimeError("cannot tell")

    stack = HookStack().with_hook(HookType.PRE_TOOL_USE, Notes("a"), matcher=CallableMatcher(broken))
    events = await process(stack, HookType.PRE_TOOL_USE, in_calls("read"), position=0)
    assert [type(event) for event in events] == [EvaluationsRecorded, ToolCallBlocked, HooksRan]


def test_what_is_not_a_hook_is_refused_when_it_is_added() -> None:
    with pytest.raises(ConfigurationError, match="wrap a function in `CallableHook`"):
        HookStack().with_hook(HookType.STOP, lambda state: state)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not a hook"):
        HookStack().with_hook(HookType.STOP, Notes)  # type: ignore[arg-type]


def test_a_type_that_is_none_is_refused_with_the_types_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'stops' is not a valid HookType; the types are .*stop"):
        HookStack().with_hook("stops", Notes("a"))  # type: ignore[arg-type]


def test_a_function_goes_by_its_own_name() -> None:
    def tidy(state: HookState) -> HookState:
        return state

    assert CallableHook(tidy).name == f"{__name__}.{tidy.__qualname__}"
    assert CallableHook(tidy, "tidy").name == "tidy"
