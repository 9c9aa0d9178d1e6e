"""Elements of a provider that we do not understand, kept in opaque parts so that they go back as they came.

An element of a reply that is none of ours is kept whole. Fields that stand beside those of a part of ours are kept in
front of that part and belong to it alone. Fields of the message stand in front of the message's parts. Only the
provider that sent them gets them back.
"""

from collections.abc import Iterator, Mapping, Sequence

from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Part, ProviderPart
from steptrail.infrastructure.models.wire import as_object

_FORMS = frozenset({"whole", "content", "message"})


def whole(provider: str, element: JsonValue) -> ProviderPart:
    """Return the part that holds an element of a reply as it came."""
    return ProviderPart(provider=provider, data={"whole": element})


def of_content(provider: str, element: JsonValue) -> ProviderPart:
    """Return the part that holds a piece of a message's content as it came, where a message is one of many elements."""
    return ProviderPart(provider=provider, data={"content": element})


def of_message(provider: str, fields: Mapping[str, JsonValue]) -> Iterator[Part]:
    """Yield the part that holds fields of the message, if there are any."""
    if fields:
        yield ProviderPart(provider=provider, data={"message": dict(fields)})


def beside(provider: str, part: Part, fields: Mapping[str, JsonValue]) -> Iterator[Part]:
    """Yield a part after the one that holds the fields beside it, if there are any."""
    if fields:
        yield ProviderPart(provider=provider, data={"beside": part.kind, "fields": dict(fields)})
    yield part


def others(told: Mapping[str, JsonValue], *known: str) -> dict[str, JsonValue]:
    """Return the fields that are not `known` and have a value: null, and empty lists and objects, have none."""
    return {name: value for name, value in told.items() if name not in known and value not in (None, [], {})}


def beside_kind(part: Part) -> str | None:
    """Return the kind of part that an opaque part holds the fields beside of, if it is such a part."""
    kind = as_object(part.data).get("beside") if isinstance(part, ProviderPart) else None
    return kind if isinstance(kind, str) else None


def understood(provider: str, parts: Sequence[Part]) -> Iterator[tuple[Part, dict[str, JsonValue]]]:
    """Yield each part with the fields beside it, leaving out what another provider marked as its own.

    What stands beside no part comes as its opaque part, with the field `whole`, `content` or `message`.
    """
    fields: tuple[str, dict[str, JsonValue]] | None = None
    for part in parts:
        if isinstance(part, ProviderPart):
            data = as_object(part.data) if part.provider == provider else {}
            kind = beside_kind(part)
            fields = (kind, as_object(data.get("fields"))) if data and kind is not None else None
            if not _FORMS.isdisjoint(data):
                yield part, data
        else:
            yield part, fields[1] if fields is not None and fields[0] == part.kind else {}
            fields = None
