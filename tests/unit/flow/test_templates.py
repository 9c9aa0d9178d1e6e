"""Templates look up and write down: texts as they are, the rest as JSON; what is missing is named."""

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import arguments, filled, rendered
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.json_values import json_values

ERROR = NodeError(
    node_id="n", kind="tool", message="boom", attempt=1, visit=1, failure=FailureClass.TOOL, at=0, tier="node"
)

SEEN = Seen(
    input={"topic": "tea", "n": 2},
    vars={"doc": {"title": "T", "tags": ["a", 1]}, "a.b": "dotted", "none": None, "input": "hidden"},
    errors=(ERROR,),
    item="it",
    index=3,
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("no place", "no place"),
        ("{{ input.topic }}!", "tea!"),
        ("{{vars.doc.title}}{{ doc.title }}", "TT"),
        ("{{ vars.doc }}", '{"title":"T","tags":["a",1]}'),
        ("{{ doc.tags }}", '["a",1]'),
        ("{{ a.b }} {{ vars.a.b }}", "dotted dotted"),
        ("{{ none }}", "null"),
        ("{{ item }} {{ index }} {{ input.n }}", "it 3 2"),
        ("{{ vars.input }}", "hidden"),
        ("a { b } {{ item }} }}", "a { b } it }}"),
        ("{{\n item\n}}", "it"),
        ("{{ item }} and {{ item", "it and {{ item"),
        ("{{ item }}" + "{{ " * 300_000, "it" + "{{ " * 300_000),
    ],
    ids=lambda text: text[:30],
)
def test_a_place_becomes_the_text_of_its_value(template: str, text: str) -> None:
    assert rendered(template, SEEN) == text


def test_the_errors_of_the_run_can_be_written_down() -> None:
    assert '"message":"boom"' in rendered("{{ errors }}", SEEN)


@pytest.mark.parametrize(
    "path", ["nothing", "vars.doc.titel", "doc.tags.0", "input.topic.x", "vars.none.x", "errors.x"]
)
def test_a_path_with_nothing_at_it_is_a_fault_that_names_it(path: str) -> None:
    with pytest.raises(NodeFault) as caught:
        rendered(f"see {{{{ {path} }}}}", SEEN)
    assert (caught.value.failure, caught.value.details) == (FailureClass.CONFIG, {"path": path})


@pytest.mark.parametrize("inner", ["", " ", "a b", "a | upper", "len(a)", "{% if x %}"])
def test_a_template_has_no_logic(inner: str) -> None:
    with pytest.raises(NodeFault, match="no logic"):
        rendered(f"{{{{{inner}}}}}", SEEN)


def test_a_value_that_looks_like_a_template_is_not_rendered_again() -> None:
    assert rendered("{{ vars.a }}", Seen(vars={"a": "{{ vars.secret }}", "secret": "s"})) == "{{ vars.secret }}"


def test_a_text_that_is_one_place_alone_becomes_the_value() -> None:
    args: JsonValue = {
        "whole": "{{ doc.tags }}",
        "text": "x{{ item }}",
        "two": "{{ item }}{{ item }}",
        "n": [1, "{{ index }}"],
    }
    assert filled(args, SEEN) == {"whole": ["a", 1], "text": "xit", "two": "itit", "n": [1, 3]}


def test_an_argument_is_left_out_where_there_is_nothing_unless_the_tool_requires_it() -> None:
    args: dict[str, JsonValue] = {"a": "{{ item }}", "b": "{{ nothing }}", "c": "{{ none }}"}
    assert arguments(args, SEEN, ()) == {"a": "it", "c": None}
    with pytest.raises(NodeFault, match="nothing at 'nothing'"):
        arguments(args, SEEN, ("b",))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("doc.titel", "'doc' has 'tags', 'title'"),
        ("doc.title.first", "'doc.title' is no object"),
        ("doc.tags.0", "'doc.tags' is no object"),
        ("doc.more.deep", "'doc' has 'tags', 'title'"),
        ("vars.dog", "'vars' has 'a.b', 'doc', 'input', 'none'"),
        ("dog", "'vars' has 'a.b', 'doc', 'input', 'none'"),
        ("dog.title", "'vars' has 'a.b', 'doc', 'input', 'none'"),
        ("input.id", "'input' has 'n', 'topic'"),
        ("item.id", "'item' is no object"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_is_there_instead(path: str, told: str) -> None:
    with pytest.raises(NodeFault) as caught:
        rendered(f"see {{{{ {path} }}}}", SEEN)
    assert caught.value.message == f"there is nothing at {path!r}: {told}"


def test_what_is_there_is_told_in_short() -> None:
    with pytest.raises(NodeFault) as caught:
        rendered("{{ input.id }}", Seen(input={f"{n:02}" + "x" * 100: n for n in range(40)}))
    assert caught.value.message.count("xxx'") == 32
    assert caught.value.message.endswith(" and more")
    with pytest.raises(NodeFault, match="'vars' has nothing"):
        rendered("{{ gone }}", Seen())


def test_a_text_around_a_missing_place_is_never_left_out() -> None:
    with pytest.raises(NodeFault):
        arguments({"a": "see {{ nothing }}"}, SEEN, ())


@given(json_values)
def test_any_value_passes_through_a_place_alone_as_it_is(value: JsonValue) -> None:
    assert filled("{{ vars.v }}", Seen(vars={"v": value})) == value


@given(st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"])))
def test_a_text_without_places_is_kept(text: str) -> None:
    assert rendered(text, SEEN) == filled(text, SEEN) == text
