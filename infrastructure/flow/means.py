"""The means of evaluation of the extra `flow`, loaded when a node first needs them."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from steptrail.domain.errors import MissingExtra
from steptrail.domain.flow.kinds.port import Expressions, MissingMeans, Patterns, Schemas
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.flow.means import FlowMeans, HttpAnswer

if TYPE_CHECKING:
    from steptrail.infrastructure.flow.http import HttpxClient

T = TypeVar("T")


class _WhenNeeded:
    """All ports. Without the packages a node that needs them fails with the class `config`."""

    @cached_property
    def _expressions(self) -> Expressions:
        from steptrail.infrastructure.flow.cel import CelExpressions

        return _loaded(CelExpressions)

    @cached_property
    def _schemas(self) -> Schemas:
        from steptrail.infrastructure.flow.schemas import JsonSchemas

        return _loaded(JsonSchemas)

    @cached_property
    def _patterns(self) -> Patterns:
        from steptrail.infrastructure.flow.patterns import LinearPatterns

        return LinearPatterns()

    @cached_property
    def _http(self) -> "HttpxClient":
        from steptrail.infrastructure.flow.http import HttpxClient

        return _loaded(HttpxClient)

    def check(self, source: str, *, is_condition: bool) -> None:
        """See `Expressions.check`."""
        self._expressions.check(source, is_condition=is_condition)

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        """See `Expressions.evaluate`."""
        return self._expressions.evaluate(source, variables, is_condition=is_condition)

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        """See `Schemas.problems`."""
        return self._schemas.problems(schema, value)

    def fits(self, pattern: object, text: str) -> bool:
        """See `Patterns.fits`."""
        return self._patterns.fits(pattern, text)

    def check_sends(self) -> None:
        """See `WebhookSender.check_sends`."""
        _ = self._http

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        """See `HttpClient.send`."""
        return await self._http.send(method, url, headers=headers, content=content)


def _loaded(kind: Callable[[], T]) -> T:
    try:
        return kind()
    except MissingExtra as error:
        raise MissingMeans(str(error)) from None


def flow_means() -> FlowMeans:
    """Return the means of evaluation. It loads nothing yet."""
    ports = _WhenNeeded()
    return FlowMeans(ports, ports, ports, ports)
