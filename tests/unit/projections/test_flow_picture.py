"""The picture of a workflow is XML that shows each node and edge, whatever they are called, and covers no node."""

import re
import sys
from itertools import combinations, pairwise
from types import FrameType
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.flow.definition import EdgeWhen
from steptrail.projections import flow_layout
from steptrail.projections.flow_drawing import COLOURS, DrawnEdge, DrawnFlow, DrawnNode
from steptrail.projections.flow_layout import HEIGHT, Layout

SVG = "{http://www.w3.org/2000/svg}"


def edge(source: int, target: int, *, loop: bool = False, taken: int = 0, when: EdgeWhen = EdgeWhen.DONE) -> DrawnEdge:
    return DrawnEdge(source=f"n{source}", target=f"n{target}", when=when, loop=loop, taken=taken)


def flow(nodes: int, *edges: DrawnEdge) -> DrawnFlow:
    return DrawnFlow(name="f", nodes=tuple(DrawnNode(id=f"n{n}", kind="noop") for n in range(nodes)), edges=edges)


@st.composite
def drawings(draw: st.DrawFn) -> DrawnFlow:
    count = draw(st.integers(0, 12))
    pairs = [*combinations(range(count), 2)]
    forward = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    back = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3)) if pairs else []
    edges = [edge(*pair, taken=draw(st.integers(0, 2))) for pair in forward]
    nodes = [
        DrawnNode(
            id=f"n{number}",
            kind="noop" * draw(st.integers(1, 4)),
            mark=draw(st.sampled_from(sorted(COLOURS))),
            ran=draw(st.integers(0, 99)),
        )
        for number in range(count)
    ]
    loops = [edge(target, source, loop=True) for source, target in back]
    return DrawnFlow(name="f", nodes=tuple(nodes), edges=(*edges, *loops))


def read(drawn: DrawnFlow) -> ElementTree.Element:
    return ElementTree.fromstring(drawn.svg())  # noqa: S314 - it is ours


@given(drawings())
def test_no_node_and_no_edge_lies_on_a_node_and_all_lie_in_the_picture(drawn: DrawnFlow) -> None:
    layout = Layout(drawn)
    width, height = layout.size
    for layer in layout.layers:
        for one, two in pairwise(layer):
            apart = layout.place(two)[0] - layout.place(one)[0]
            assert apart >= (layout.width(one) + layout.width(two)) / 2 - 1e-6
        for spot in layer:
            x, y = layout.place(spot)
            assert 0 <= x - layout.width(spot) / 2 <= x + layout.width(spot) / 2 <= width
            assert 0 <= y <= y + HEIGHT <= height
    for each in drawn.edges:
        if not each.loop:
            assert layout.place(each.source)[1] + HEIGHT < layout.place(each.target)[1]


@given(drawings())
def test_it_is_xml_with_each_node_and_each_edge_and_always_the_same(drawn: DrawnFlow) -> None:
    picture = read(drawn)
    titles = [each.text or "" for each in picture.iter(f"{SVG}title")]
    assert titles == ["f", *(f"{node.id}: {node.words()}" for node in drawn.nodes)]
    ways = [each for each in picture.iter(f"{SVG}path") if each.get("marker-end")]
    assert len(ways) == len(drawn.edges)
    assert [each.get("stroke-dasharray") is not None for each in ways] == [each.loop for each in drawn.edges]
    assert [each.get("stroke-width") == "2.5" for each in ways] == [each.taken > 0 for each in drawn.edges]
    assert drawn.svg() == drawn.svg()


@given(st.text(min_size=1), st.text())
def test_hostile_names_stay_text(name: str, kind: str) -> None:
    node = DrawnNode(id=name, kind=kind)
    drawn = DrawnFlow(name=f"{name}</title><script>", nodes=(node,), edges=())
    assert {each.tag.removeprefix(SVG) for each in read(drawn).iter()} <= {
        *("svg", "title", "marker", "path", "rect", "g", "text"),
    }


def test_an_edge_that_passes_a_layer_goes_beside_its_nodes() -> None:
    layout = Layout(flow(3, edge(0, 1), edge(1, 2), edge(0, 2)))
    assert [len(layer) for layer in layout.layers] == [1, 2, 1]
    way, _, _ = layout.way(2)
    x, _ = layout.place("n1")
    bend = float(re.findall(r"C[\d.]+ [\d.]+ [\d.]+ [\d.]+ ([\d.]+)", way)[0])
    assert abs(bend - x) > layout.width("n1") / 2 - 1e-6


def test_each_node_is_measured_once_however_often_it_is_moved() -> None:
    drawn, measured = flow(40, *(edge(n, n + 1) for n in range(39))), 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal measured
        measured += event == "call" and frame.f_code is DrawnNode.words.__code__

    sys.setprofile(note)
    try:
        Layout(drawn)
    finally:
        sys.setprofile(None)
    assert measured == 40


def test_what_is_said_of_an_edge_is_its_end_and_how_often_it_was_taken() -> None:
    said = read(flow(3, edge(0, 1, when=EdgeWhen.ERROR, taken=3), edge(1, 2, taken=1), edge(2, 1, loop=True, taken=2)))
    assert [each.text for each in said.findall(f"{SVG}text")] == ["error, 3x", "2x"]


@pytest.mark.slow("draws hundreds of long edges")
def test_beyond_so_many_bends_edges_are_drawn_straight() -> None:
    count = 300
    row = [edge(n, n + 1) for n in range(count - 1)]
    long = [edge(n, count - 1) for n in range(count - 2)]
    layout = Layout(flow(count, *row, *long))
    spots = sum(len(layer) for layer in layout.layers)
    assert flow_layout.MOST_BENDS - count < spots - count <= flow_layout.MOST_BENDS


def test_nothing_is_a_picture_too() -> None:
    assert read(flow(0)).get("viewBox") == "0 0 24 48"
