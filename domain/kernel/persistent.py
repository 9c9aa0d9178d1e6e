"""A mapping that never changes. Each change returns another one, and the two share all but a small part.

The entries lie in three layers: rows, buckets, and a small dictionary in each bucket. A change copies one row and one
bucket, so it takes a few microseconds at 10,000 keys, and no order of changes and branches makes it copy everything.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_FEW = 32
"""As many entries lie in one bucket; when there are more, there are 32 rows of 32 buckets."""

_WIDTH = 32

_Bucket = dict[K, tuple[int, K, V]]
"""Each entry has the number that orders it, its key and its value."""


class Layers(Mapping[K, V]):
    """An immutable mapping. It iterates in the order in which its keys were first set."""

    __slots__ = ("_length", "_next", "_rows")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._rows: tuple[tuple[_Bucket[K, V], ...], ...] = (({},),)
        self._length = self._next = 0
        if items:
            filled = self.updated(items)
            self._rows, self._length, self._next = filled._rows, filled._length, filled._next

    def set(self, key: K, value: V) -> "Layers[K, V]":
        """Return this mapping with another value under a key."""
        return self.updated({key: value})

    def updated(self, sets: Mapping[K, V], unsets: Iterable[K] = ()) -> "Layers[K, V]":
        """Return this mapping with the values of `sets`, and then without the keys of `unsets`."""
        gone, number = frozenset(unsets), self._next
        fresh: list[tuple[int, K, V]] = []
        for key, value in sets.items():
            if key not in gone:
                known = self._bucket(key).get(key)
                fresh.append((number if known is None else known[0], key, value))
                number += known is None
        return self.patched([key for key in gone if key in self], fresh)

    def _with(self, copied: "dict[int, _Bucket[K, V]]", number: int) -> "Layers[K, V]":
        """Return this mapping with some other buckets."""
        rows = list(self._rows)
        length = self._length
        for place, bucket in copied.items():
            row = list(rows[place >> 5])
            length += len(bucket) - len(row[place & 31])
            row[place & 31] = bucket
            rows[place >> 5] = tuple(row)
        changed: Layers[K, V] = object.__new__(Layers)  # pyright: ignore[reportUnknownVariableType]
        changed._rows, changed._length, changed._next = tuple(rows), length, number
        if length > _FEW and len(rows) == 1:
            changed._rows = _spread(rows[0][0])
        return changed

    def since(self, earlier: "Layers[K, V]") -> "tuple[list[K], list[tuple[int, K, V]]]":
        """Return the keys that `earlier` has and this mapping has not, and the entries that are not the same in it.

        What the two share is not looked at, if one of them was made of the other, or both of a third one.
        """
        gone: list[K] = []
        fresh: list[tuple[int, K, V]] = []
        for old, new in self._pairs(earlier):
            gone.extend(key for key in old if key not in new)
            fresh.extend(entry for key, entry in new.items() if old.get(key) is not entry)
        fresh.sort(key=_number)
        return gone, fresh

    def _pairs(self, earlier: "Layers[K, V]") -> "Iterator[tuple[_Bucket[K, V], _Bucket[K, V]]]":
        """Yield the buckets of `earlier` and of this mapping that hold the same keys, where they differ."""
        if len(self._rows) == len(earlier._rows):
            rows = ((old, new) for old, new in zip(earlier._rows, self._rows, strict=True) if old is not new)
            buckets = ((old, new) for row in rows for old, new in zip(*row, strict=True))
            yield from ((old, new) for old, new in buckets if old is not new)
        else:
            yield earlier._whole(), self._whole()

    def _whole(self) -> "_Bucket[K, V]":
        return {key: entry for row in self._rows for bucket in row for key, entry in bucket.items()}

    def patched(self, gone: Iterable[K], fresh: "Iterable[tuple[int, K, V]]") -> "Layers[K, V]":
        """Return this mapping with the changes that `since` has returned of another one with the same entries."""
        mask, number = len(self._rows) - 1, self._next
        copied: dict[int, _Bucket[K, V]] = {}
        changes: list[tuple[K, tuple[int, K, V] | None]] = [(key, None) for key in gone]
        changes += [(entry[1], entry) for entry in fresh]
        for key, entry in changes:
            place = hash(key) & (mask << 5 | mask)
            bucket = copied.get(place)
            if bucket is None:
                bucket = copied[place] = self._rows[place >> 5][place & 31].copy()
            if entry is None:
                bucket.pop(key, None)
            else:
                bucket[key] = entry
                number = max(number, entry[0] + 1)
        return self._with(copied, number) if copied else self

    def __getitem__(self, key: K) -> V:
        return self._bucket(key)[key][2]

    def __contains__(self, key: object) -> bool:
        return key in self._bucket(key)

    def _bucket(self, key: object) -> "_Bucket[K, V]":
        mask, code = len(self._rows) - 1, hash(key)
        return self._rows[code >> 5 & mask][code & mask]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        entries = [entry for row in self._rows for bucket in row for entry in bucket.values()]
        entries.sort(key=_number)
        return (key for _, key, _ in entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self is other or dict(self.items()) == dict(other.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # type: ignore[assignment]  # compared by content, and values need not be hashable

    def __repr__(self) -> str:
        return f"Layers({dict(self)!r})"


def _number(entry: tuple[int, K, V]) -> int:
    return entry[0]


def _spread(bucket: "_Bucket[K, V]") -> "tuple[tuple[_Bucket[K, V], ...], ...]":
    """Return the entries of one bucket in 32 rows of 32."""
    rows: list[list[_Bucket[K, V]]] = [[{} for _ in range(_WIDTH)] for _ in range(_WIDTH)]
    for key, entry in bucket.items():
        code = hash(key)
        rows[code >> 5 & 31][code & 31][key] = entry
    return tuple(map(tuple, rows))
