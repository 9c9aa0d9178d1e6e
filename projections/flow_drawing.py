"""The drawing of a workflow, and of what one run of it has done: as data, as Mermaid, as SVG, and as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from steptrail.domain.flow.definition import EdgeWhen
from steptrail.domain.json_value import JsonValue
from steptrail.projections.camel_form import camel_fields
from steptrail.projections.rendering import many

_MOST_LETTERS = 40

NodeMark = Literal["untouched", "open", "waiting", "ran", "tolerated", "skipped", "failed", "cancelled"]
"""The fate of a node: of several visits, that of the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A node, and what became of it.

    `ran` counts its visits that have ended well, `tolerated` those whose failure was recorded, `skipped` those that a
    person skipped. `tries` are those of all visits, and `waits` are between them. `errors_of_items` counts the items of
    a map whose failure was recorded.
    """

    id: str
    kind: str
    mark: NodeMark = "untouched"
    ran: int = 0
    tolerated: int = 0
    skipped: int = 0
    tries: int = 0
    waits: int = 0
    errors_of_items: int = 0

    @property
    def shown_id(self) -> str:
        """The id, cut if it is long."""
        return self.id if len(self.id) <= _MOST_LETTERS else f"{self.id[: _MOST_LETTERS - 1]}…"

    @property
    def said(self) -> str:
        """The words that stand in the node: what became of it, and nothing of one that was not reached."""
        return "" if self.mark == "untouched" else self.words()

    def words(self) -> str:
        """Return what became of the node, in words."""
        visits = self.ran + self.tolerated
        is_said = self.mark == "tolerated" and visits == 1
        said = [] if self.mark in {"ran", "skipped", "untouched"} else [_MARKS[self.mark]]
        said += [f"ran {_times(visits)}"] if visits and not is_said else []
        said += [f"skipped {_times(self.skipped)}"] if self.skipped else []
        said += [f"{self.tries} tries"] if self.tries > visits and self.tries > 1 else []
        said += [many(self.waits, "wait")] if self.waits else []
        said += [many(self.errors_of_items, "failed item")] if self.errors_of_items else []
        return ", ".join(said) or "not reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """An edge, and how often it was taken."""

    source: str
    target: str
    when: EdgeWhen
    loop: bool
    taken: int = 0

    @property
    def said(self) -> str:
        """The words beside the edge: when it is taken, if that is not the usual, and how often, if more than once."""
        said = [self.when.value] * (self.when is not EdgeWhen.DONE) + [f"{self.taken}x"] * (self.taken > 1)
        return ", ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFlow:
    """A workflow, with its nodes in the order in which they can run, and its edges as they are declared."""

    name: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return camel_fields(self)

    def mermaid(self) -> str:
        """Return it in the language of Mermaid. Loop edges are dotted, and edges that were taken are thick."""
        numbers = {node.id: f"n{number}" for number, node in enumerate(self.nodes)}
        lines = ["flowchart TD"]
        for node in self.nodes:
            said = f"<br/>{node.said}" if node.said else ""
            lines.append(f'    {numbers[node.id]}["{node.id}<br/>{node.kind}{said}"]:::{node.mark}')
        for edge in self.edges:
            arrow = "-.->" if edge.loop else "==>" if edge.taken else "-->"
            label = f'|"{edge.said}"|' if edge.said else ""
            lines.append(f"    {numbers[edge.source]} {arrow}{label} {numbers[edge.target]}")
        marks: list[NodeMark] = sorted({node.mark for node in self.nodes})
        return "\n".join([*lines, *(f"    classDef {mark} {_style(mark)}" for mark in marks)]) + "\n"

    def svg(self) -> str:
        """Return it as a picture, in SVG. Loop edges are dashed, and edges that were taken are thick."""
        from steptrail.projections.flow_picture import picture

        return picture(self)

    def text(self) -> str:
        """Return it as text: a line for each node, and below it one for each edge that leads from it.

        An edge of a node that has ended was taken once, unless it says otherwise.
        """
        longest = max((len(node.id) for node in self.nodes), default=0)
        kinds = max((len(node.kind) for node in self.nodes), default=0)
        has_run = any(node.mark != "untouched" for node in self.nodes)
        ended = {node.id for node in self.nodes if node.mark in _ENDED}
        below: dict[str, list[str]] = {}
        for edge in self.edges:
            said = ["loop"] * edge.loop + [edge.when.value] * (edge.when is not EdgeWhen.DONE)
            said += [f"taken {_times(edge.taken)}"] * (edge.taken > (edge.source in ended))
            said += ["not taken"] * (not edge.taken and edge.source in ended)
            line = f"  > {edge.target}" + (f" ({', '.join(said)})" if said else "")
            below.setdefault(edge.source, []).append(line)
        lines: list[str] = []
        for node in self.nodes:
            words = node.words() if has_run else ""
            lines.append(f"{node.id:<{longest}}  {node.kind:<{kinds}}  {words}".rstrip())
            lines += below.get(node.id, [])
        return "\n".join(lines) + "\n"


_ENDED = {"ran", "tolerated", "skipped", "failed"}
_MARKS = {
    "open": "running",
    "waiting": "waiting",
    "tolerated": "failed and tolerated",
    "failed": "failed",
    "cancelled": "cancelled",
}
COLOURS: Final[Mapping[NodeMark, tuple[str, str, str]]] = {
    "untouched": ("#fff", "#999", "#666"),
    "open": ("#e0edff", "#2563eb", "#111"),
    "waiting": ("#fff4d6", "#b7791f", "#111"),
    "ran": ("#e3f7e8", "#2f855a", "#111"),
    "tolerated": ("#fde8d8", "#c05621", "#111"),
    "skipped": ("#eee", "#666", "#111"),
    "failed": ("#fde2e2", "#c53030", "#111"),
    "cancelled": ("#eee", "#c53030", "#111"),
}
"""NodeMark -> the colours of a node inside, of its line, and of its text."""


def _style(mark: NodeMark) -> str:
    fill, stroke, colour = COLOURS[mark]
    return f"fill:{fill},stroke:{stroke},color:{colour}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
