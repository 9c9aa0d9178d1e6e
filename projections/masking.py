"""Masking: all content passes here before a page or a span is made of it.

The values of keys that mean a secret are hidden, and so is what looks like a credential in any text. A service names
more keys, and may give a function of its own. With `show="shape"` no value is shown at all, only of which kind it is.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import orjson
from msgspec import Struct, structs

from steptrail.domain.base import full_form
from steptrail.domain.content import content_of
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.given import a_plain_function, a_row, a_text
from steptrail.domain.secrets import without_secret_values, without_secrets
from steptrail.domain.shared.events import MetadataChanged, SessionScored

HIDDEN: Final = "••••"
"""The text in the place of a value that is hidden."""

Show = Literal["values", "shape"]
"""Whether values are shown, or only of which kind they are."""

Mask: TypeAlias = Callable[[str, JsonValue], JsonValue]
"""Returns what is shown of a value. It is given the key in front of the value, empty where there is none."""

_SAID_IN_STATE: Final = (
    *("metadata", "definition", "votes.context", "votes.given_reason"),
    *("agent.system_prompt", "agent.examples", "agent.tools.description", "agent.tools.approval.reason"),
)
"""The paths of what people say in the state of events, from which decisions are folded, so that it is no content."""
_WORD: Final = "[A-Za-z_]{1,19}"
"""Keys in which no credentials are looked for: nearly all are so, and what is a credential is longer, or has digits."""
_LONGEST = 100_000
"""Characters of a text in which secrets are looked for; the rest of a longer one is not shown."""


@dataclass(frozen=True)
class Masking:
    """Hides what must not be shown. `keys` are names of keys whose values are hidden; case does not count.

    Raises `ConfigurationError` for keys that are no list of texts, and for a `mask` or a `show` that there cannot be.
    """

    keys: Collection[str] = ()
    mask: Mask | None = None
    show: Show = "values"
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.mask is not None:
            a_plain_function(self.mask, "`mask`", "a key", "a value")
        if self.show not in get_args(Show):
            raise ConfigurationError(f"`show` is one of {', '.join(get_args(Show))}, not {self.show!r}")
        names = a_row(self.keys, "`mask_keys`")  # a single text is a row of letters, and would hide nothing
        object.__setattr__(self, "_names", frozenset(a_text(name, "each of `mask_keys`").casefold() for name in names))

    @property
    def shows_values(self) -> bool:
        """Tell whether values are shown at all."""
        return self.show == "values"

    def value(self, value: JsonValue) -> JsonValue:
        """Return what is shown of content that is JSON."""
        return self._value("", without_secret_values(value)) if self.shows_values else _shape(value)

    def text(self, text: str) -> str:
        """Return what is shown of content that is text."""
        return str(self.value(text))

    def event(self, event: Event) -> JsonValue:
        """Return the fields of an event as they are shown."""
        whole: JsonValue = full_form(event)
        if self.shows_values:
            return self.value(whole)
        for path in (*content_of(type(event)), *_said_in_state(event)):
            whole = _shaped(whole, path.split("."))
        return whole

    def _value(self, key: str, value: JsonValue) -> JsonValue:
        if key.casefold() in self._names:
            return HIDDEN
        match value:
            case dict():
                shown: JsonValue = _entries(value, self._names, self._value)
            case list():
                shown = [self._value(key, inner) for inner in value]
            case str():
                shown = self._plain(value)
            case _:
                shown = value
        return shown if self.mask is None else self.mask(key, shown)

    def _plain(self, text: str) -> str:
        """Return a text without secrets; one that is JSON is looked into, if it is not too long or too deep."""
        cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        if cut.lstrip()[:1] in {"{", "["}:
            with suppress(orjson.JSONDecodeError, RecursionError):
                held: JsonValue = orjson.loads(cut)
                shown = self._value("", without_secret_values(held))
                if shown != held:
                    return json.dumps(shown, ensure_ascii=False)
        return without_secrets(cut, self._names)


def as_shown(value: Any, shown: JsonValue, *, is_content: bool = False) -> Any:
    """Return an event, or a value in it, with the texts and the JSON that are shown of it, to be put into words.

    `shown` is the answer of `Masking.event`. All texts of a part are hidden that is not shown as such a part.
    """
    match value:
        case Struct():
            parts = shown if isinstance(shown, dict) else {}
            masked, content = copy(value), getattr(value, "CONTENT", ())
            for name in value.__struct_fields__:
                part = as_shown(getattr(value, name), parts.get(name, HIDDEN), is_content=name in content)
                structs.force_setattr(masked, name, part)  # unchecked: what is shown may be no value of the field
            return masked
        case tuple():
            items = cast("tuple[Any, ...]", value)  # type: ignore[redundant-cast]  # pyright needs it
            parts_shown = shown if isinstance(shown, list) and len(shown) == len(items) else [HIDDEN] * len(items)
            return tuple(map(as_shown, items, parts_shown))
        case str() if type(value) is str:
            return str(shown)
        case dict() | list():
            return shown
        case bool() | int() | float() if is_content:  # JSON that is no object
            return shown
        case _:
            return value


def shortened(value: JsonValue, most: int) -> JsonValue:
    """Return the JSON with long texts in it cut to `most` characters: it is masked before, while they are whole."""
    match value:
        case str() if len(value) > most:
            return f"{value[:most]}… (of {len(value)} characters)"
        case dict():
            return {key: shortened(inner, most) for key, inner in value.items()}
        case list():
            return [shortened(inner, most) for inner in value]
        case _:
            return value


def _said_in_state(event: Event) -> Iterator[str]:
    """Yield the paths of what people say in the state of an event; a reason that is one of some words is none such."""
    yield from _SAID_IN_STATE
    yield from {"reason"} & event.STATE
    if isinstance(event, MetadataChanged):
        yield "changes"
    if isinstance(event, SessionScored) and isinstance(event.value, str):
        yield "value"


def _shaped(value: JsonValue, path: Sequence[str]) -> JsonValue:
    """Return the value with the shape of what stands under a path; lists on the way are passed through."""
    if isinstance(value, list):
        return [_shaped(item, path) for item in value]
    if not path:
        return _shape(value)
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: _shaped(value[path[0]], path[1:])}
    return value


def _shape(value: JsonValue) -> JsonValue:
    match value:
        case None:
            return None
        case bool():
            return "(true or false)"
        case int() | float():
            return "(number)"
        case str():
            return f"(text, {len(value)} characters)"
        case Mapping():
            return _entries(value, (), lambda _, inner: _shape(inner))
        case _:
            return [_shape(inner) for inner in value]


def _entries(
    value: Mapping[str, JsonValue], names: Collection[str], shown_of: Callable[[str, JsonValue], JsonValue]
) -> dict[str, JsonValue]:
    """Return what is shown of an object. Its keys may be credentials too, such as addresses with passwords."""
    shown: dict[str, JsonValue] = {}
    for key, inner in value.items():
        said = key if re.fullmatch(_WORD, key) else without_secrets(key, names)
        while said in shown:  # that of another one, which differs in what is hidden
            said += "…"
        shown[said] = shown_of(key, inner)
    return shown
