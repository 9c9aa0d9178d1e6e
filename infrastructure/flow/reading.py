"""Reads a workflow from YAML or JSON, with the code that the caller brings. The text itself imports nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, cast

from msgspec import structs
from pydantic import ValidationError

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.definition import EdgeWhen
from steptrail.domain.flow.diagnose import diagnose_texts
from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.flow.resolving import WrittenEdge, resolved_edges
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.flow.building import CHECKED_BY, Workflow
from steptrail.infrastructure.flow.document import FlowDocument
from steptrail.infrastructure.flow.entries import UnknownUse, add_entry, brought_under
from steptrail.infrastructure.flow.placing import WRONG_VALUE, located, place_in, problems_of
from steptrail.infrastructure.flow.strict_json import read_json
from steptrail.infrastructure.flow.strict_yaml import UNREADABLE, Place, Placed, read_yaml, unreadable
from steptrail.runtime.flow.workflow import BuiltWorkflow

_MOST_BYTES: Final = 1_048_576
_MOST_NODES: Final = 20_000

_ABOUT_A_NODE = re.compile(r"node '[^']*': ")
_ABOUT_A_FIELD = re.compile(r"(\w+(?:\[\d+\]|\.\w+)*): ")


def read_flow(text: str, use: Mapping[str, object] | None) -> tuple[str, BuiltWorkflow | None, list[Diagnostic]]:
    """Return the name of a workflow, what is built of its text, and what is wrong with that, in its order.

    Nothing is built where anything is an error. With None for `use` the text alone is read, and what is built of it
    cannot be run. Raises `ConfigurationError` for what is no text, and for a `use` that is no mapping from names.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"a workflow is read from a text of YAML or JSON, not {type(text).__name__}")
    if use is not None and not (isinstance(use, Mapping) and all(isinstance(each, str) for each in use)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError("`use` is a mapping from names to tools, models, agents, workflows and functions")
    read = _placed(text)
    given = read.value if isinstance(read.value, dict) else {}
    name = str(given.get("name", "?"))
    found = list(read.diagnostics)
    if not found and not isinstance(read.value, dict):
        found.append(
            located((), read.places, WRONG_VALUE, "a workflow is an object that begins with `steptrail: flow/v1`")
        )
    nodes = given.get("nodes")
    if isinstance(nodes, list) and len(nodes) > _MOST_NODES:
        found.append(located(("nodes",), read.places, UNREADABLE, f"it has more than {_MOST_NODES:,} nodes"))
    if found:
        return name, None, found
    try:
        document = FlowDocument.model_validate(read.value)
    except ValidationError as error:
        return (
            name,
            None,
            _in_order(problems_of(error.errors(include_url=False, include_input=False), read.value, read.places)),
        )
    return name, *_Building(document, read).built(use)


class _Building:
    """Builds a workflow of a document, and collects what is wrong on the way."""

    def __init__(self, document: FlowDocument, read: Placed) -> None:
        self._document, self._read = document, read
        self._found: list[Diagnostic] = []
        self._edges: list[tuple[WrittenEdge, int]] = []
        self._added: list[int] = []
        self._is_whole = True

    def built(self, use: Mapping[str, object] | None) -> tuple[BuiltWorkflow | None, list[Diagnostic]]:
        document = self._document
        flow: BuiltWorkflow | None = None
        try:
            builder = Workflow(
                document.name,
                result=document.result,
                entry=document.entry,
                options=document.options,
                description=document.description,
            )
            self._add_nodes(builder, use)
            self._add_resources(builder, use)
            self._add_edges(builder)
            if self._is_whole:
                flow, found = builder.diagnosed()
                self._found += [self._of_the_graph(each) for each in found]
            else:
                # What is missing because of a fault would be a fault again in the graph, and in no text.
                added = zip(self._added, builder.nodes, strict=True)
                self._found += [self._of_the_graph(each) for each in diagnose_texts(added, CHECKED_BY)]
        except ConfigurationError as error:
            self._note((), str(error))
        in_order = _in_order(self._found)
        if flow is None or any(each.severity == "error" for each in in_order):
            return None, in_order
        return replace(flow, warnings=tuple(in_order)), in_order

    def _add_nodes(self, builder: Workflow, use: Mapping[str, object] | None) -> None:
        for index, entry in enumerate(self._document.nodes):
            place: Place = ("nodes", index)
            # A node whose code does not fit stands in the graph all the same, so that the graph can be checked.
            for code in (use, None) if use is not None else (None,):
                try:
                    add_entry(builder, entry, code)
                except UnknownUse as error:
                    self._note(self._places_of_use.get((place, error.name), place), str(error), "FL-105", error.hint)
                except ConfigurationError as error:
                    said = _ABOUT_A_NODE.sub("", str(error), count=1)
                    field = _ABOUT_A_FIELD.match(said)
                    self._note((*place, *place_in(field[1])) if field else place, said)
                else:
                    self._added.append(index)
                    break
            else:
                self._is_whole = False

    def _add_resources(self, builder: Workflow, use: Mapping[str, object] | None) -> None:
        name = self._document.resources
        if name is None or use is None:
            return
        try:
            builder.with_resources(cast("Any", brought_under(name, use)))
        except UnknownUse as error:
            self._note(("resources",), str(error), "FL-105", error.hint)
        except ConfigurationError as error:
            self._note(("resources",), str(error))

    def _add_edges(self, builder: Workflow) -> None:
        for index, entry in enumerate(self._document.edges):
            if isinstance(entry, str):
                names = [name.strip() for name in entry.split(">")]
                if len(names) < 2 or not all(names):
                    self._is_whole = False
                    self._note(("edges", index), f"{entry!r} is no chain such as 'a > b'")
                builder.chain(*names)
                self._edges += [(WrittenEdge(*pair), index) for pair in pairwise(names)]
                continue
            targets = [entry.target] if isinstance(entry.target, str) else entry.target
            sources = [entry.source] if isinstance(entry.source, str) else entry.source
            builder.edge(sources, *targets, when=entry.when, loop=entry.loop)
            when = None if entry.when is None else EdgeWhen(entry.when)
            self._edges += [(WrittenEdge(s, t, when, entry.loop), index) for s in sources for t in targets]

    @cached_property
    def _places_of_use(self) -> dict[tuple[Place, JsonValue], Place]:
        """Place of a node, and name -> the place at which the node first uses that name."""
        uses = ((place, _at(self._read.value, place)) for place in self._read.places if place[-1:] == ("use",))
        return {(place[:2], name): place for place, name in reversed([*uses]) if isinstance(name, str)}

    @cached_property
    def _places_of_edges(self) -> list[int]:
        """Number of an edge of the definition -> number of the entry that says it."""
        said = {(edge.source, edge.target): index for edge, index in reversed(self._edges)}
        return [said[edge.source, edge.target] for edge in resolved_edges(edge for edge, _ in self._edges)]

    def _of_the_graph(self, found: Diagnostic) -> Diagnostic:
        place = place_in(found.path)
        if place[:1] == ("edges",) and len(place) > 1 and isinstance(place[1], int):
            index = self._places_of_edges[place[1]]
            is_mapping = not isinstance(self._document.edges[index], str)
            place = ("edges", index, *(place[2:] if is_mapping else ()))
        told = located(place, self._read.places, found.code, found.message, found.hint)
        return structs.replace(told, code=found.code, severity=found.severity)

    def _note(self, place: Place, message: str, code: str = WRONG_VALUE, hint: str | None = None) -> None:
        found = located(place, self._read.places, code, message, hint)
        if self._found[-1:] != [found]:
            self._found.append(found)


def _placed(text: str) -> Placed:
    """Return what a text says: JSON if it begins with a brace, else YAML."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return unreadable("it is no valid Unicode")
    if size > _MOST_BYTES:
        return unreadable(f"it has more than {_MOST_BYTES:,} bytes")
    return read_json(text) if text.lstrip().startswith("{") else read_yaml(text)


def _at(value: JsonValue, place: Place) -> JsonValue:
    for step in place:
        match value:
            case dict() if step in value:
                value = value[str(step)]
            case list() if isinstance(step, int):
                value = value[step]
            case _:
                return None
    return value


def _in_order(found: "Iterator[Diagnostic] | list[Diagnostic]") -> list[Diagnostic]:
    return sorted(found, key=lambda each: (each.line or 0, each.column or 0))
