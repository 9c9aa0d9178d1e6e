"""CEL expressions, evaluated by `cel-expr-python`, within limits that a hostile source cannot leave.

The runtime itself bounds nesting and iterations. What it does not bound is how long texts and lists grow, so a source
that could make them a thousand times as long is refused before it is compiled.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from steptrail.domain.errors import NotStorable
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import is_unicode, storable
from steptrail.infrastructure.extras import from_extra

LONGEST_SOURCE: Final = 2_000
"""Characters."""

_MOST_GROWTH: Final = 1_000
_ROOTS: Final = ("vars", "input", "item", "index", "errors")
_KEPT: Final = 1_024
"""How many compiled sources are kept."""

_FAULT = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(")
_GROWING = re.compile(r"\.\s*map\s*\(")
_NAME_OF_VAR = re.compile(r"""\s*(?:\.\s*([A-Za-z_]\w*\b)(?!\s*\()|\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])""")
_VARS = re.compile(r"(?<![\w.])vars\b")


class CelExpressions:
    """Evaluates CEL. Raises `MissingExtra` without the package."""

    def __init__(self) -> None:
        cel = from_extra("cel_expr_python.cel", "flow", "a CEL expression", "cel-expr-python")
        self._environment: Any = cel.NewEnv(variables=dict.fromkeys(_ROOTS, cel.Type.DYN))
        self._compiled = lru_cache(_KEPT)(self._compile)

    def check(self, source: str, *, is_condition: bool) -> None:
        """Compile a source. Raises `NodeFault` of the class `config`, with `line` and `column` among its details."""
        kind = self._compiled(source)[1]
        if is_condition and kind not in {"BOOL", "DYN"}:
            raise _unusable(f"a condition is true or false, and {_shown(source)} is of the type {kind.lower()}")

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        """Return the value of a source.

        Raises `NodeFault`: `config` as `check` does, `validation` when it has no value, one that is no JSON, or, as a
        condition, one that is neither true nor false.
        """
        self.check(source, is_condition=is_condition)
        expression = self._compiled(source)[0]
        given = dict(_named(source, variables))
        try:
            # Its strings end at a NUL and cannot hold a half of a surrogate pair: both would be read as another text.
            if b"\\u0000" in msgspec.json.encode(given) and "\0" in "".join(_texts(given)):
                raise _wrong(source, "a text holds a NUL character")
            found = expression.eval(data=given)
            kind, value = found.type().name(), found.plain_value()
        except (RuntimeError, RecursionError, MemoryError, UnicodeEncodeError) as error:
            raise _wrong(source, str(error) or type(error).__name__) from None
        if kind == "ERROR":
            raise _wrong(source, str(value))
        if is_condition and not isinstance(value, bool):
            raise _wrong(source, f"it is {kind.lower()}, and a condition is true or false")
        try:
            return storable(value)
        except NotStorable as error:
            raise _wrong(source, str(error)) from None

    def _compile(self, source: str) -> tuple[Any, str]:
        if len(source) > LONGEST_SOURCE:
            raise _unusable(f"an expression has at most {LONGEST_SOURCE:,} characters, not {len(source):,}")
        if not is_unicode(source):
            raise _unusable("an expression is valid Unicode")
        if _growth(source) > _MOST_GROWTH:
            raise _unusable(f"{_shown(source)} could make a text or a list more than {_MOST_GROWTH:,} times as long")
        try:
            expression = self._environment.compile(source)
        except RuntimeError as error:
            fault = _FAULT.search(str(error))
            line, column = (max(1, int(fault[1])), max(1, int(fault[2]))) if fault else (1, 1)
            said = fault[3] if fault else str(error)
            raise _unusable(f"{_shown(source)}: column {column}: {said}", line, column) from None
        return expression, cast("str", expression.return_type().name())


def _growth(source: str) -> float:
    """Return a bound of the factor by which texts and lists can grow.

    Each `map` may make its items longer by what stands inside of it, and they multiply. The product is greatest when
    the signs that make something longer are spread evenly.
    """
    levels = len(_GROWING.findall(source)) + 1
    longer = source.count("+") + max(0, source.count(",") - len(_MACRO.findall(source)))
    return float(1 + longer / levels) ** levels


def _named(source: str, variables: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the variables that a source names; of `vars` only those that it names, unless it takes them all."""
    for root in _ROOTS:
        if root not in source or root not in variables:
            continue
        value = variables[root]
        if root == "vars" and isinstance(value, Mapping):
            places = [_NAME_OF_VAR.match(source, found.end()) for found in _VARS.finditer(source)]
            names = {next(filter(None, place.groups()), "") for place in places if place is not None}
            if None not in places:
                value = {name: value[name] for name in names if name in value}
        yield root, dict(value) if isinstance(value, Mapping) else value


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from value
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            return


def _unusable(message: str, line: int = 1, column: int = 1) -> NodeFault:
    return NodeFault(FailureClass.CONFIG, message, {"line": line, "column": column})


def _wrong(source: str, message: str) -> NodeFault:
    return NodeFault(FailureClass.VALIDATION, f"{_shown(source)}: {message}", {"expression": source})


def _shown(source: str) -> str:
    return repr(source if len(source) <= 80 else f"{source[:80]}…")
