"""The means by which nodes are evaluated, as the runtime brings them: expressions, schemas and HTTP."""

from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, Protocol

from steptrail.domain.flow.kinds.port import Expressions, MissingMeans, NodeMeans, Patterns, Schemas, WebhookSender
from steptrail.domain.json_value import JsonValue

MOST_BYTES: Final = 10 * 1024 * 1024
"""Bytes. A longer body of an answer, unpacked, is not read to its end."""


class HttpAnswer(NamedTuple):
    """The answer to a request. The names in `headers` are lower case.

    The body of an answer that is no success is not read: then `content` is empty.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class HttpClient(WebhookSender, Protocol):
    """Sends single requests. It keeps no cookies and follows no redirects."""

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        """Send a request and return the answer. It waits until it is cancelled.

        Raises `ConnectionError` when the other side cannot be reached, `ConnectionResetError` when it breaks off and
        may have been told, and `NodeFault` for a request that cannot be sent, and for an answer that cannot be read or
        is longer than `MOST_BYTES`. Their messages hold nothing of the request.
        """
        ...


class FlowMeans(NamedTuple):
    """Evaluates CEL expressions, checks values against JSON schemas, searches texts, and sends HTTP requests."""

    expressions: Expressions
    schemas: Schemas
    patterns: Patterns
    http: HttpClient

    @property
    def of_nodes(self) -> NodeMeans:
        """The means of nodes that do not leave the process, without functions."""
        return NodeMeans(self.expressions, self.schemas, self.patterns, self.http)


def _missing(what: str) -> NoReturn:
    raise MissingMeans(f"{what} need the extra: pip install 'steptrail[flow]'")


class _Missing:
    def check(self, source: str, *, is_condition: bool) -> None:
        _missing("expressions")

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        _missing("expressions")

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        _missing("JSON schemas")

    def fits(self, pattern: object, text: str) -> bool:
        raise MissingMeans("nothing here searches texts for patterns")

    def check_sends(self) -> None:
        _missing("webhooks")

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        _missing("webhooks")


WITHOUT = FlowMeans(_Missing(), _Missing(), _Missing(), _Missing())
"""The means of an owner that was given none: a node that needs one fails, with the name of the extra if it has one."""
