"""A table with one entry for each kind of machine, under the prefix that the ids of its streams have.

An entry is the object itself or the text `module:NAME`. The text is imported when the entry is first needed. So a
process imports only the kinds that it meets, and a layer that must not depend on any kind can still name all of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

from steptrail.domain.kernel.loading import loading

T = TypeVar("T")


def prefix_of(stream: str) -> str:
    """Return the prefix of a stream's id, such as `agent:`; empty for an id without one."""
    prefix, colon, _ = stream.partition(":")
    return prefix + colon if colon else ""


def id_of(stream: str) -> str:
    """Return the id of a stream without its prefix."""
    return stream.removeprefix(prefix_of(stream))


class ByPrefix(Generic[T]):
    """Maps the prefix of a kind, which ends in a colon, to the entry of that kind."""

    def __init__(self, entries: Mapping[str, T | str]) -> None:
        self._entries: dict[str, T | str] = dict(entries)

    def add(self, prefix: str, entry: T | str) -> None:
        """Add the entry of a kind. Raises `ValueError` for a prefix that is taken or that does not end in a colon."""
        if prefix in self._entries:
            raise ValueError(f"the streams {prefix!r} belong to another kind already")
        if not prefix.endswith(":") or prefix.count(":") != 1 or prefix == ":":
            raise ValueError(f"{prefix!r} is no prefix of streams: it ends in the one colon that it holds")
        self._entries[prefix] = entry

    def of(self, stream: str) -> T | None:
        """Return the entry for the kind of a stream; None when the table has no such kind."""
        prefix = prefix_of(stream)
        entry = self._entries.get(prefix)
        if not isinstance(entry, str):
            return entry
        module, _, name = entry.partition(":")
        with loading(module):
            loaded = cast("T", getattr(import_module(module), name))
        self._entries[prefix] = loaded
        return loaded

    def load_all(self) -> None:
        """Import every kind. That also registers the events of each."""
        for prefix in self:
            self.of(prefix)

    def __contains__(self, prefix: object) -> bool:
        """Tell whether the table has a kind with this prefix."""
        return prefix in self._entries

    def __iter__(self) -> Iterator[str]:
        """Return the prefixes, in the order in which they were added."""
        return iter(tuple(self._entries))
