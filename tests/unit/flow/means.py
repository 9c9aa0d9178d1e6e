"""NodeMeans of evaluation for tests of single kinds: real functions, and ports that answer from a table."""

from collections.abc import Callable, Mapping
from typing import Any

from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.flow.patterns import LinearPatterns


class Table:
    """The ports. An expression is a key of the table, and a function of the variables; a schema names one type."""

    def __init__(self, table: Mapping[str, Callable[[Any], JsonValue]]) -> None:
        self.table = table

    def check(self, source: str, *, is_condition: bool) -> None:
        if source not in self.table:
            raise NodeFault(FailureClass.CONFIG, f"{source!r} cannot be compiled", {"column": 1})

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        self.check(source, is_condition=is_condition)
        return self.table[source](variables)

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        return () if type(value).__name__ == schema["type"] else (f"it is no {schema['type']}",)

    def check_sends(self) -> None:
        pass


def means(
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
    expressions: Mapping[str, Callable[[Any], JsonValue]] | None = None,
) -> NodeMeans:
    """Return means with these functions, and with these expressions."""
    ports = Table(expressions or {})
    return NodeMeans(ports, ports, LinearPatterns(), ports, functions or {})
