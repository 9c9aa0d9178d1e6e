"""Workflows as texts: read from YAML or JSON, checked, and described by a JSON schema.

What reads them is imported by the call, because it needs pydantic and the extra `flow`.
"""

from collections.abc import Mapping

from steptrail.domain.errors import InvalidWorkflow
from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.flow.workflow import BuiltWorkflow


def load_flow(text: str, use: Mapping[str, object] | None = None) -> BuiltWorkflow:
    """Return the workflow that a text of YAML or JSON says.

    `use` holds what its nodes use, by name: tools, models, agents, workflows and functions; the text itself imports
    nothing. Raises `InvalidWorkflow`, which lists all that is wrong, each with its line and column, and `MissingExtra`
    without the extra `flow`.
    """
    return _read(text, {} if use is None else use)


def check_flow(text: str, use: Mapping[str, object] | None = None) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a text that `load_flow` would read, in the order of the text; `()` for nothing.

    Without `use` the text alone is checked, and not how it fits the code.
    """
    from steptrail.infrastructure.flow.reading import read_flow

    return tuple(read_flow(text, use)[2])


def written_flow(text: str) -> FlowDefinition:
    """Return what a text says, without code: to show, and not to run. Raises `InvalidWorkflow` and `MissingExtra`."""
    return _read(text, None).definition


def flow_schema() -> dict[str, JsonValue]:
    """Return the JSON schema, of the draft 2020-12, of what `load_flow` reads: for editors and for forms."""
    from steptrail.infrastructure.flow.document import FlowDocument

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **FlowDocument.model_json_schema()}


def _read(text: str, use: Mapping[str, object] | None) -> BuiltWorkflow:
    from steptrail.infrastructure.flow.reading import read_flow

    name, flow, found = read_flow(text, use)
    if flow is None:
        raise InvalidWorkflow(name, found)
    return flow
