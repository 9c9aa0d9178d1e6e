"""The means by which nodes are evaluated, as the runtime brings them: expressions and schemas."""

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from steptrail.domain.flow.kinds.port import Expressions, NodeFault, Schemas
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue

__all__ = ["WITHOUT", "FlowMeans"]


class FlowMeans(NamedTuple):
    """Evaluates CEL expressions, and checks values against JSON schemas."""

    expressions: Expressions
    schemas: Schemas


def _missing(what: str) -> NoReturn:
    raise NodeFault(FailureClass.CONFIG, f"{what} need the extra: pip install 'steptrail[flow]'")


class _Missing:
    def check(self, source: str, *, is_condition: bool) -> None:
        _missing("expressions")

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        _missing("expressions")

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        _missing("JSON schemas")


WITHOUT = FlowMeans(_Missing(), _Missing())
"""The means of a process without the extra `flow`: a node that needs one fails with the name of the extra."""
