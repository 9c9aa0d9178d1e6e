"""The drawing of a workflow as a picture in SVG. Loop edges are dashed, and edges that were taken are thick."""

from collections.abc import Iterator
from html import escape

from steptrail.projections.flow_drawing import COLOURS, DrawnEdge, DrawnFlow, DrawnNode
from steptrail.projections.flow_layout import HEIGHT, Layout


def picture(drawn: DrawnFlow) -> str:
    """Return a drawing as SVG."""
    layout = Layout(drawn)
    width, height = layout.size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="12" text-anchor="middle">',
            f"<title>{_plain(drawn.name)}</title>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
            'markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z" fill="#666"/></marker>',
            '<rect width="100%" height="100%" fill="#fff"/>',
            *(line for number, edge in enumerate(drawn.edges) for line in _edge(layout, number, edge)),
            *(line for node in drawn.nodes for line in _node(layout, node)),
            "</svg>\n",
        ]
    )


def _node(layout: Layout, node: DrawnNode) -> Iterator[str]:
    fill, line, colour = COLOURS[node.mark]
    x, y, width = *layout.place(node.id), layout.width(node.id)
    yield f"<g><title>{_plain(node.id)}: {_plain(node.words())}</title>"
    yield f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT:.0f}" rx="7" fill="{fill}" '
    yield f'stroke="{line}" stroke-width="1.5"/><g fill="{colour}">'
    yield f'<text x="{x:.1f}" y="{y + 17:.1f}" font-weight="600">{_plain(node.shown_id)}</text>'
    yield f'<text x="{x:.1f}" y="{y + 30:.1f}" font-size="10">{_plain(node.kind)}</text>'
    yield f'<text x="{x:.1f}" y="{y + 43:.1f}" font-size="10">{_plain(node.said)}</text></g></g>'


def _edge(layout: Layout, number: int, edge: DrawnEdge) -> Iterator[str]:
    style = 'stroke-width="2.5"' if edge.taken else 'stroke-width="1.2"'
    style += ' stroke-dasharray="5 4"' if edge.loop else ""
    way, x, y = layout.way(number)
    yield f'<path d="{way}" fill="none" stroke="#666" stroke-linejoin="round" {style} marker-end="url(#tip)"/>'
    if edge.said:
        yield f'<text x="{x:.1f}" y="{y:.1f}" fill="#444" font-size="11" stroke="#fff" stroke-width="4" '
        yield f'paint-order="stroke">{edge.said}</text>'


def _plain(text: str) -> str:
    """Return a text as XML takes it, whatever it holds."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))
