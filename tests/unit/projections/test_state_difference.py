"""The difference of two states: by path, nothing twice, bounded, and enough to get from the one to the other."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from steptrail.domain.json_value import JsonValue
from steptrail.projections.state_difference import MOST_CHANGES, state_difference
from tests.profile import examples

BEFORE: JsonValue = {
    "status": "in_progress",
    "messages": ["hi", {"role": "assistant", "text": "one moment"}],
    "vars": {"two words": 1, "gone": None},
    "usage": 12,
}
AFTER: JsonValue = {
    "status": "failed",
    "messages": ["hi", {"role": "assistant", "text": "one minute"}, "bye"],
    "vars": {"two words": 2},
    "usage": 12,
    "error": {"message": "gone"},
}


def test_each_change_has_its_path_and_both_values() -> None:
    found = state_difference(BEFORE, AFTER)
    assert [str(change) for change in found.changes] == [
        "~ status: in_progress → failed",
        "~ messages[1].text: one moment → one minute",
        "+ messages[2]: bye",
        '~ vars["two words"]: 1 → 2',
        "- vars.gone: null",
        '+ error: {"message":"gone"}',
    ]
    assert not found.is_cut
    assert found.changes[2].to_dict() == {"path": "messages[2]", "kind": "added", "before": None, "after": "bye"}


def test_no_more_than_a_page_of_changes_is_told() -> None:
    before, after = list(range(MOST_CHANGES + 1)), list(range(1, MOST_CHANGES + 2))
    found = state_difference([*before], [*after])
    assert (len(found.changes), found.is_cut) == (MOST_CHANGES, True)
    assert state_difference([*before[1:]], [*after[1:]]).is_cut is False
    assert len(state_difference([*before], [*after], limit=2).changes) == 2


@pytest.mark.parametrize(("before", "after"), [(True, 1), (1, 1.0), ("1", 1), ([], {}), (None, False), ([1], [True])])
def test_what_is_written_differently_differs(before: JsonValue, after: JsonValue) -> None:
    assert len(state_difference(before, after).changes) == 1
    assert state_difference(before, before).changes == ()


def test_a_long_value_is_shown_from_where_it_differs() -> None:
    ((change),) = state_difference({"text": "a" * 500 + "one"}, {"text": "a" * 500 + "two" + "b" * 99}).changes
    assert str(change) == f"~ text: …{'a' * 20}one → …{'a' * 20}two{'b' * 57}…"


def test_a_short_value_is_shown_whole() -> None:
    ((change,),) = [state_difference({"at": "a" * 60 + "1"}, {"at": "a" * 60 + "2"}).changes]
    assert str(change) == f"~ at: {'a' * 60}1 → {'a' * 60}2"


json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b c"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c d", '"']), inner, max_size=3)
    ),
    max_leaves=12,
)


def patched(value: Any, path: str, kind: str, after: Any) -> Any:
    """The value with one change made, by the path alone."""
    if not path:
        return after
    value = copy.deepcopy(value)
    name = "root" + (path if path.startswith("[") else f".{path}")
    steps: list[Any] = []
    rest = name.removeprefix("root")
    while rest:
        if rest.startswith("."):
            end = min((at for mark in ".[" if (at := rest.find(mark, 1)) > 0), default=len(rest))
            steps.append(rest[1:end])
        else:
            end = rest.find("]") + 1
            steps.append(orjson.loads(rest[1 : end - 1]))
        rest = rest[end:]
    inner = value
    for step in steps[:-1]:
        inner = inner[step]
    if kind == "removed":
        del inner[steps[-1]]
    elif kind == "added" and not isinstance(inner, dict):
        inner.append(after)
    else:
        inner[steps[-1]] = after
    return value


@given(json, json)
@examples(100)
def test_the_changes_lead_from_the_one_to_the_other(before: JsonValue, after: JsonValue) -> None:
    value: Any = before
    changes = state_difference(before, after).changes
    assert len({change.path for change in changes}) == len(changes)
    # What is removed from a list goes from its end.
    kept = [change for change in changes if change.kind != "removed"]
    for change in (*kept, *reversed([change for change in changes if change.kind == "removed"])):
        value = patched(value, change.path, change.kind, change.after)
    assert value == after
    assert state_difference(value, after).changes == ()
