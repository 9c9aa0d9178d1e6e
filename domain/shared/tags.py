"""The tags and the tenant of a run, which are read from the metadata of its stream.

Anybody can write metadata. What is no tag is passed over.
"""

from collections.abc import Mapping
from hashlib import sha256

from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import plain

MOST_TAGS = 16
"""So many tags a run has at most: the first ones by their names."""

LONGEST_TAG = 64
"""The length to which the name and the value of a tag are cut, and the longest tenant that is kept as it is."""


def tenant_in(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return how the tenant that metadata names stands in the tables, a number and a truth value as text.

    None when it names none, or what is no plain value.
    """
    if (given := metadata.get("tenant")) is None:
        return None
    return kept_tenant((given if isinstance(given, str) else _text(given)) or "") or None


def kept_tenant(tenant: str) -> str:
    """Return how a tenant stands in the tables. No two tenants stand there alike, or one would see the other's runs.

    One that is too long, or has in it what a database cannot hold, is its beginning with its digest, which is longer
    than any that is kept as it is.
    """
    cut = plain(tenant, LONGEST_TAG)
    return cut if cut == tenant else f"{cut}…{sha256(tenant.encode(errors='surrogatepass')).hexdigest()}"


def tags_in(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the tags under `tags` by name: an object whose values are texts, numbers or truth values."""
    given = metadata.get("tags")
    if not isinstance(given, Mapping):
        return {}
    texts = {plain(name, LONGEST_TAG): _text(given[name]) for name in sorted(given)}
    tags = {name: value for name, value in texts.items() if value is not None}
    return {name: tags[name] for name in sorted(tags)[:MOST_TAGS]}


def _text(value: JsonValue) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return plain(value, LONGEST_TAG)
        case int():
            # To write a huge number as text takes long, and Python refuses it.
            return str(value) if abs(value) < 10**LONGEST_TAG else None
        case float():
            return repr(value)
        case _:
            return None
