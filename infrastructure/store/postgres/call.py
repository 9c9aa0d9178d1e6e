"""A statement in the words of the server: prepared once on each connection, its parameters as they go over the wire.

A cursor of the driver looks at each element of each parameter for the way to send it, which for a commit takes longer
than all else that we do to store one. The statement that every commit is knows the types of its parameters, so it goes
around the cursor, straight to the library below, and keeps the deadline that cursors have.
"""

import struct
from collections.abc import Sequence
from typing import Final, LiteralString

import msgspec

from steptrail.infrastructure.store.postgres.driver import Connection, answer_on

_BINARY = 1
_BYTEA, _BIGINT = 17, 20
_VERSION_OF_JSONB = b"\1"
_EMPTY: Final = struct.Struct(">iiI")
"""How many dimensions an array has, whether an element is NULL, and the type of its elements."""
_FILLED: Final = struct.Struct(">iiIii")
"""The same, then how many elements there are in the dimension, and the number of the first."""
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)
_NUMBER: Final = struct.Struct(">q")


def json_object(value: object) -> bytes:
    """Return a `jsonb`. Raises `UnicodeEncodeError` for text that is no Unicode."""
    return _VERSION_OF_JSONB + msgspec.json.encode(value)


def byte_strings(values: Sequence[bytes | None]) -> bytes:
    """Return a `bytea[]`."""
    return _array(_BYTEA, values)


def integer(value: int) -> bytes:
    """Return a `bigint`. Raises `struct.error` for a number that has no room in one."""
    return _NUMBER.pack(value)


def integers(values: Sequence[int | None]) -> bytes:
    """Return a `bigint[]`. Raises `struct.error` for a number that has no room in one."""
    return _array(_BIGINT, [None if value is None else _NUMBER.pack(value) for value in values])


def _array(kind: int, values: Sequence[bytes | None]) -> bytes:
    # An array without elements has no dimension either.
    parts = [_FILLED.pack(1, None in values, kind, len(values), 1) if values else _EMPTY.pack(0, 0, kind)]
    for value in values:
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


class Call:
    """A statement with `$1`, `$2` and so on for its parameters. For work that `attempt` runs."""

    def __init__(self, name: str, statement: LiteralString) -> None:
        self._name, self._statement = name.encode(), statement.encode()

    def rows(self, connection: Connection, parameters: Sequence[bytes]) -> list[tuple[bytes | None, ...]]:
        """Return the rows of the answer, as they came."""
        if self._name not in connection.prepared:
            connection.pgconn.send_prepare(self._name, self._statement)
            answer_on(connection)
            connection.prepared.add(self._name)
        connection.pgconn.send_query_prepared(self._name, parameters, [_BINARY] * len(parameters), _BINARY)
        answer = answer_on(connection)
        return [tuple([answer.get_value(i, j) for j in range(answer.nfields)]) for i in range(answer.ntuples)]
