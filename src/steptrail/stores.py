"""What a store of your own needs: the protocol that it fulfils, what passes through it, and how events become bytes."""

from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogPage
from steptrail.domain.kernel.record import Commit, Snapshot, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.codec import decode, encode, stored_names, unreadable
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore, Lease, StoredStream

__all__ = [
    "KINDS",
    "Commit",
    "EventStore",
    "IndexQuery",
    "Lease",
    "LogPage",
    "Snapshot",
    "StoredStream",
    "StreamHead",
    "decode",
    "encode",
    "open_store",
    "stored_names",
    "unreadable",
]
