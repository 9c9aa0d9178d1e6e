"""The checks that every store makes of a snapshot: that it is whole, and that it stands on events that are stored.

Its seal is a SHA-256 over all of it. It shows damage, not forgery: a program that can write the store can seal as well,
so `steptrail doctor` folds the events and compares.
"""

from hashlib import sha256
from typing import NamedTuple

from steptrail.domain.kernel.record import Snapshot, StreamHead


class SnapshotRow(NamedTuple):
    """A snapshot as it is stored, and the digest of the commit that ends at its version, if there is one.

    A hand may have written anything into the columns.
    """

    version: object
    digest: object
    format: object
    state: object
    seal: object
    standing: bytes | None


def seal(stream: str, snapshot: Snapshot) -> bytes:
    """Return the seal of a snapshot."""
    head, kind, state = snapshot
    said = f"{len(stream)} {stream} {head.version} {head.digest.hex()} {len(kind)} {kind} "
    whole = sha256(said.encode(errors="backslashreplace"))
    whole.update(state)
    return whole.digest()


def unsealed(stream: str, row: SnapshotRow) -> Snapshot:
    """Return the snapshot of a row. Raises `ValueError` that says why it is not to be used."""
    version, digest, kind, state = row.version, row.digest, row.format, row.state
    if not (isinstance(version, int) and isinstance(digest, bytes) and isinstance(kind, str)):
        raise ValueError("it is damaged: it holds a value of the wrong type")
    snapshot = Snapshot(StreamHead(version, digest), kind, state if isinstance(state, bytes) else b"")
    if seal(stream, snapshot) != row.seal:
        raise ValueError("it is damaged: its content does not match its seal")
    if row.standing != digest:
        raise ValueError(f"it stands on a commit that ends at event {version} and is not stored")
    return snapshot
