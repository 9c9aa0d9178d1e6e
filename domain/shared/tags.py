"""The tags and the tenant of a run, which are read from the metadata of its stream.

Anybody can write metadata. What is no tag is passed over.
"""

from collections.abc import Mapping
from hashlib import sha256

from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import plain

MOST_TAGS = 16
"""So many tags a run has at most: the first ones by their names."""

TOLD_IN_METADATA = ("tags", "tenant")
"""The entries of metadata that say of tags and of the tenant."""

_LONGEST = 64
"""The longest tenant, and name or value of a tag, that is kept as it is."""


def tenant_in(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return how the tenant that metadata names stands in the tables, a number and a truth value as text.

    None when it names none, or what is no plain value.
    """
    if (given := metadata.get("tenant")) is None:
        return None
    return kept_apart(_text(given) or "") or None


def kept_apart(text: str) -> str:
    """Return how a tenant, or the name or the value of a tag, stands in the tables.

    No two stand there alike: one tenant would see the runs of another, and who erases all of one person would erase
    those of another. One that is too long, or has in it what a database cannot hold, is its beginning with its digest,
    which is longer than any that is kept as it is.
    """
    cut = plain(text, _LONGEST)
    return cut if cut == text else f"{cut}…{sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def tags_in(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the tags under `tags` by name: an object whose values are texts, numbers or truth values."""
    given = metadata.get("tags")
    if not isinstance(given, Mapping):
        return {}
    texts = {name: _text(value) for name, value in given.items()}
    tags = {kept_apart(name): kept_apart(value) for name, value in texts.items() if value is not None}
    return {name: tags[name] for name in sorted(tags)[:MOST_TAGS]}


def _text(value: JsonValue) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            # To write a huge number as text takes long, and Python refuses it.
            return str(value) if abs(value) < 10**_LONGEST else None
        case float():
            return repr(value)
        case _:
            return None
