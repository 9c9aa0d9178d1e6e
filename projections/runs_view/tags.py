"""The tags and the tenant of a run, which are read from the metadata of its stream.

Anybody can write metadata. What is no tag is passed over.
"""

from collections.abc import Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.projections.runs_view.values import plain

__all__ = ["LONGEST_TAG", "MOST_TAGS", "tags_in", "tenant_in"]

MOST_TAGS = 16
"""So many tags a run has at most: the first ones by their names."""

LONGEST_TAG = 64
"""The length to which the name and the value of a tag, and a tenant, are cut, in characters."""


def tenant_in(metadata: Mapping[str, JsonValue]) -> str:
    """Return the tenant: the text or the whole number under `tenant`; an empty text for none."""
    return _text(metadata.get("tenant")) or ""


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
