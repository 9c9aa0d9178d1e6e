import pytest

from steptrail.errors import ConfigurationError
from steptrail.hooks import (
    CallableMatcher,
    CompositeMatcher,
    EventTypeMatcher,
    HookMatcher,
    HookState,
    HookType,
    ToolNameMatcher,
    ToolNameRegexMatcher,
)
from tests.unit.hooks.given import at_boundary, in_calls, seen_by

TOOL_EVENTS = [HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE]
OTHER_EVENTS = [hook_type for hook_type in HookType if hook_type not in TOOL_EVENTS]


def matches(matcher: HookMatcher, tool: str, hook_type: HookType = HookType.PRE_TOOL_USE) -> bool:
    position = 0 if hook_type.is_tool_event() else None
    return matcher.matches(seen_by(hook_type, in_calls(tool), position=position), hook_type)


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [
        ("*", "search", True),
        ("search", "search", True),
        ("search", "search_files", False),
        ("search", "Search", False),
        ("SEARCH", "search", False),
        ("search*", "search_files", True),
        ("*_files", "search_files", True),
        ("rea?", "read", True),
        ("rea?", "rea", False),
        ("rea?", "reads", False),
        ("[rl]ead", "lead", True),
        ("[rl]ead", "head", False),
        ("[!rl]ead", "head", True),
        ("[!rl]ead", "read", False),
        ("v[0-9]", "v7", True),
        ("v[0-9]", "vx", False),
        ("/^read/", "read", False),
        ("", "read", False),
    ],
)
def test_a_shell_pattern_fits_the_whole_name_case_and_all(pattern: str, tool: str, expected: bool) -> None:
    assert matches(ToolNameMatcher(pattern), tool) is expected


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [
        ("file", "read_file_now", True),
        ("^read", "read_file", True),
        ("^read", "do_read", False),
        ("^(read|list)$", "list", True),
        ("READ", "read", False),
        ("(?i)READ", "read", True),
        ("", "read", True),
    ],
)
def test_a_regular_expression_is_looked_for_anywhere_in_the_name(pattern: str, tool: str, expected: bool) -> None:
    assert matches(ToolNameRegexMatcher(pattern), tool) is expected


def test_a_pattern_that_is_no_regular_expression_is_refused_when_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match=r"'\(' is not a regular expression"):
        ToolNameRegexMatcher("(")


@pytest.mark.parametrize("hook_type", TOOL_EVENTS)
@pytest.mark.parametrize("matcher", [ToolNameMatcher("*"), ToolNameRegexMatcher("")])
def test_a_tool_matcher_knows_the_tool_before_and_after_its_call(matcher: HookMatcher, hook_type: HookType) -> None:
    assert matches(matcher, "read", hook_type)
    settled = seen_by(hook_type, in_calls("read", done=1), position=0)
    assert matcher.matches(settled, hook_type)


@pytest.mark.parametrize("hook_type", OTHER_EVENTS)
@pytest.mark.parametrize("matcher", [ToolNameMatcher("*"), ToolNameRegexMatcher("")])
def test_a_tool_matcher_is_false_where_no_tool_is_meant(matcher: HookMatcher, hook_type: HookType) -> None:
    assert not matches(matcher, "read", hook_type)
    assert not matcher.matches(seen_by(hook_type, at_boundary()), hook_type)


def test_the_tool_is_the_one_the_hooks_are_about() -> None:
    state = in_calls("read", "write", "list")
    second = seen_by(HookType.PRE_TOOL_USE, state, position=1)
    assert ToolNameMatcher("write").matches(second, HookType.PRE_TOOL_USE)
    assert not ToolNameMatcher("read").matches(second, HookType.PRE_TOOL_USE)


def test_event_types_match_one_or_several() -> None:
    matcher = EventTypeMatcher(HookType.STOP, HookType.ON_ERROR)
    state = seen_by(HookType.STOP, at_boundary())
    assert [t for t in HookType if matcher.matches(state, t)] == [HookType.ON_ERROR, HookType.STOP]
    assert not any(EventTypeMatcher().matches(state, hook_type) for hook_type in HookType)


def test_a_function_is_asked_with_the_state_and_the_type() -> None:
    asked: list[tuple[str, HookType]] = []

    def predicate(state: HookState, hook_type: HookType) -> bool:
        asked.append((str(state.metadata["city"]), hook_type))
        return hook_type is HookType.STOP

    state = seen_by(HookType.STOP, at_boundary())
    assert CallableMatcher(predicate).matches(state, HookType.STOP)
    assert not CallableMatcher(predicate).matches(state, HookType.ON_ERROR)
    assert asked == [("Bern", HookType.STOP), ("Bern", HookType.ON_ERROR)]


YES, NO = CallableMatcher(lambda _state, _type: True), CallableMatcher(lambda _state, _type: False)


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (CompositeMatcher.and_(), True),
        (CompositeMatcher.or_(), True),
        (CompositeMatcher.and_(YES, YES), True),
        (CompositeMatcher.and_(YES, NO), False),
        (CompositeMatcher.or_(NO, YES), True),
        (CompositeMatcher.or_(NO, NO), False),
        (CompositeMatcher.and_(YES, CompositeMatcher.or_(NO, YES)), True),
        (CompositeMatcher.or_(NO, CompositeMatcher.and_(YES, NO)), False),
        (CompositeMatcher.and_(CompositeMatcher.or_(), CompositeMatcher.and_(YES)), True),
        (CompositeMatcher.and_(NO, CompositeMatcher.or_()), False),
    ],
)
def test_composites_nest_and_an_empty_one_matches(matcher: HookMatcher, expected: bool) -> None:
    assert matches(matcher, "read") is expected


def test_a_composite_narrows_a_tool_to_one_event() -> None:
    matcher = CompositeMatcher.and_(EventTypeMatcher(HookType.POST_TOOL_USE), ToolNameMatcher("re*"))
    assert [t for t in HookType if matches(matcher, "read", t)] == [HookType.POST_TOOL_USE]


def test_a_function_that_nobody_awaits_is_refused_since_it_would_always_match() -> None:
    async def never(_state: HookState, _type: HookType) -> bool:
        return False

    with pytest.raises(ConfigurationError, match="what a CallableMatcher asks is a plain function"):
        CallableMatcher(never)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
