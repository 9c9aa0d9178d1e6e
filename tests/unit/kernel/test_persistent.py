"""A persistent mapping is like a dictionary, but each change leaves all that were there before as they are."""

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.kernel.persistent import Layers

CHANGES = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 99), st.integers(), max_size=40), st.sets(st.integers(0, 99), max_size=9)),
    max_size=12,
)


@given(CHANGES)
def test_it_holds_what_a_dictionary_holds_in_the_same_order_and_older_ones_stay(
    changes: list[tuple[dict[int, int], set[int]]],
) -> None:
    layers, plain = Layers[int, int](), dict[int, int]()
    history: list[tuple[Layers[int, int], dict[int, int]]] = []
    for sets, unsets in changes:
        layers = layers.updated(sets, unsets)
        plain = {key: value for key, value in (plain | sets).items() if key not in unsets}
        history.append((layers, plain))
    for then, expected in history:
        assert list(then.items()) == list(expected.items())
        assert len(then) == len(expected)
        assert then == expected


def test_branches_of_one_mapping_do_not_see_each_other() -> None:
    trunk = Layers({f"k{i}": i for i in range(1000)})
    branches = [trunk.set("k5", i).set(f"new{i}", i).updated({}, [f"k{i}"]) for i in range(100, 200)]
    assert trunk["k5"] == 5
    for i, branch in enumerate(branches, 100):
        assert branch["k5"] == branch[f"new{i}"] == i
        assert f"k{i}" not in branch
        assert len(branch) == 1000


def test_a_key_that_is_set_again_keeps_its_place_and_one_that_was_removed_gets_a_new_one() -> None:
    layers = Layers({"a": 1, "b": 2, "c": 3})
    assert list(layers.set("a", 9)) == ["a", "b", "c"]
    assert list(layers.updated({}, ["a"]).set("a", 9)) == ["b", "c", "a"]


def test_a_change_of_nothing_is_the_same_mapping() -> None:
    layers = Layers({"a": 1})
    assert layers.updated({}) is layers
    assert layers.updated({}, ["b"]) is layers


def test_what_is_not_there_raises_and_is_not_equal() -> None:
    layers: Mapping[str, int] = Layers({"a": 1})
    with pytest.raises(KeyError):
        layers["b"]
    assert layers.get("b") is None
    assert layers != {"a": 2}
    assert layers != {"a": 1, "b": 1}
    assert repr(layers) == "Layers({'a': 1})"
