"""A sequence that only grows. All states of a session share its buffer, each with the length that it has seen.

Appending to the newest view extends the buffer in place, so that folding n events takes time in proportion to n.
Appending to an older view copies its items first, so that no view ever changes. Items that come from a snapshot stay
encoded in the buffer until they are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import SupportsIndex, TypeVar, cast, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Log(Sequence[T_co]):
    """An immutable view of the first `len(log)` items of an append-only buffer."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, items: Iterable[T_co] = ()) -> None:
        self._buffer: list[T_co] = list(items)
        self._length = len(self._buffer)

    @classmethod
    def written(cls, count: int, lines: Callable[[], list[bytes]], decode: Callable[[bytes], T_co]) -> "Log[T_co]":
        """Return a log of the `count` items that the lines hold in encoded form.

        The lines are asked for when the first item is read, and each is decoded when it is first read. Reading an item
        raises what `lines` and `decode` raise.
        """
        view = cls()
        view._buffer, view._length = _UndecodedItems(count, lines, decode), count
        return view

    def appended(self, *items: T_co) -> "Log[T_co]":  # type: ignore[misc]  # safe: the view it is called on never changes
        """Return a view of the items of this one, followed by `items`."""
        view: Log[T_co] = object.__new__(Log)  # pyright: ignore[reportUnknownVariableType]
        buffer, length = self._buffer, self._length
        if len(buffer) != length:
            buffer = buffer[:length]
        buffer.extend(items)
        view._buffer, view._length = buffer, length + len(items)
        return view

    def first(self, count: int) -> "Log[T_co]":
        """Return a view of the first `count` items. Raises `IndexError` if there are fewer, or `count` is negative."""
        if not 0 <= count <= self._length:
            msg = f"a log of {self._length} has no first {count}"
            raise IndexError(msg)
        view: Log[T_co] = object.__new__(Log)  # pyright: ignore[reportUnknownVariableType]
        view._buffer, view._length = self._buffer, count
        return view

    def shown(self, show: Callable[[T_co], T_co]) -> "Log[T_co]":
        """Return a view of the same length that returns `show(item)` in place of each item."""
        return _Shown(self, show)

    def encoded(self, start: int, encode: Callable[[T_co], bytes]) -> Iterator[bytes]:
        """Return an iterator over the items from index `start` on as bytes. `start` is not negative.

        Items that are still encoded are yielded as they are, and are not decoded for this.
        """
        buffer = self._buffer
        if not isinstance(buffer, _UndecodedItems):
            return map(encode, buffer[start : self._length])
        return (item if isinstance(item, bytes) else encode(item) for item in buffer.undecoded(start, self._length))

    @property
    def last(self) -> T_co | None:
        """The newest item; None when the log is empty."""
        return self._buffer[self._length - 1] if self._length else None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(index, slice):
            return [self._buffer[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            msg = f"index {index} is outside a log of {self._length}"
            raise IndexError(msg)
        return self._buffer[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[T_co]:
        return islice(self._buffer, self._length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        return self._length == len(other) and all(a == b for a, b in zip(self, other, strict=True))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # type: ignore[assignment]  # a view compares by content and its items need not be hashable

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"


class _Shown(Log[T]):
    """A log that returns `show(item)` in place of each item."""

    __slots__ = ("_show",)

    def __init__(self, log: Log[T], show: Callable[[T], T]) -> None:
        self._buffer, self._length, self._show = log._buffer, log._length, show

    @property
    def last(self) -> T | None:
        newest = super().last
        return None if newest is None else self._show(newest)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._show(item) for item in super().__getitem__(index)]
        return self._show(super().__getitem__(index))

    def __iter__(self) -> Iterator[T]:
        return map(self._show, super().__iter__())


class _UndecodedItems(list[T]):
    """A list whose items are bytes until they are first read; until the first of them is, they are only counted."""

    def __init__(self, count: int, lines: Callable[[], list[bytes]], decode: Callable[[bytes], T]) -> None:
        super().__init__(cast("list[T]", [b""]) * count)
        self._count, self._decode = count, decode
        self._lines: Callable[[], list[bytes]] | None = lines

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        item = super().__getitem__(index)
        if isinstance(item, bytes):
            self._have_lines()
            item = super().__getitem__(index)  # again, because another thread may have read it
        if isinstance(item, bytes):
            item = self[index] = self._decode(item)
        return item

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    def undecoded(self, start: int, stop: int) -> list[T | bytes]:
        """Return items as they are in the list, without decoding them."""
        self._have_lines()
        return cast("list[T | bytes]", super().__getitem__(slice(start, stop)))

    def _have_lines(self) -> None:
        if (lines := self._lines) is not None:
            self[: self._count] = cast("list[T]", lines())
            self._lines = None
