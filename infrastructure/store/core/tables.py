"""The tables of a store, and the meaning of each of their columns, said once for every database.

PostgreSQL keeps these texts as comments on columns, and SQLite as comments in its schema, so that a shell shows them.
"""

from collections.abc import Mapping
from typing import LiteralString

FORMAT = 10
"""The format that this version writes. Formats 1 to 9 were never released, and no version converts them."""
MIN_READER = 10
"""The oldest format whose readers understand what this version writes."""

INDEXES: Mapping[str, str] = {
    "streams_due": "streams (due_at, id) WHERE due_at IS NOT NULL",
    "streams_due_at_once": "streams (updated_at) WHERE due_at <= updated_at",
    "streams_working": "streams (number) WHERE standing = 'working'",
    "streams_below": "streams (parent) WHERE parent IS NOT NULL",
    "streams_open_below": "streams (number) WHERE parent IS NOT NULL AND standing <> 'done'",
    "streams_of_tenants": "streams (tenant, number) WHERE tenant IS NOT NULL",
    "streams_forked": "streams (fork_of) WHERE fork_of IS NOT NULL",
    "blobs_of_streams": "blob_uses (stream)",
    "waits_for_streams": "waits (stream) WHERE waits_on IS NOT NULL",
    "waits_open": "waits (kind, since) WHERE answered_at IS NULL",
}
"""Name -> table, columns and condition: only what is open, or few have, is in them, so they stay small."""

_TABLES: Mapping[str, Mapping[LiteralString, tuple[str, str]]] = {
    "store": {
        "format": ("INTEGER NOT NULL", "the format that the store was written in"),
        "min_reader": ("INTEGER NOT NULL", "the oldest format whose readers understand this store"),
    },
    "streams": {
        "number": ("INTEGER PRIMARY KEY", "stands for the stream in the other tables"),
        "id": ("TEXT NOT NULL UNIQUE", "the kind and the id of a session, agent:order-7"),
        "version": (
            "INTEGER",
            "the version that the columns from here on speak of; they are written when the standing changes",
        ),
        "name": ("TEXT", "the name of the agent that the last run was begun with"),
        "tenant": ("TEXT", "the tenant in its metadata, as it stands in the read models; NULL for none"),
        "status": (
            "TEXT",
            "pending, in_progress, paused, waiting, completed or failed; erased when nothing else is left",
        ),
        "standing": ("TEXT", "where it stands for an owner: pending, working, resting, paused or done"),
        "stop_reason": ("TEXT", "why the last run stopped, NULL while it is open"),
        "resolved_by": ("TEXT", "the criterion that decided so"),
        "answered": ("INTEGER", "whether the last run stopped with an answer of its own, also at a limit"),
        "due_at": (
            "INTEGER",
            "from when an owner can go on without help, in microseconds of UTC; NULL when help must come first",
        ),
        "paused_by": ("TEXT", "who paused it while it is paused"),
        "recorded_errors": ("INTEGER", "after how many failures of nodes the last run went on, 0 while it is open"),
        "executions": ("INTEGER", "how many runs have begun"),
        "steps": ("INTEGER", "how many steps of the last run were recorded"),
        "active_seconds": ("REAL", "the active time of the last run"),
        "cost": ("TEXT", "JSON: the cost of the last run, NULL without prices"),
        "parent": ("TEXT", "the stream above, NULL for none"),
        "began_by": ("TEXT", "JSON: the call of the stream above that began it"),
        "fork_of": ("TEXT", "the stream whose past it shares, NULL for none"),
        "started_at": ("INTEGER", "the instant of the first event, in microseconds of UTC"),
        "updated_at": ("INTEGER", "the instant of the event at that version, in microseconds of UTC"),
        "damage": ("TEXT", "what a reader has met that it could not read"),
    },
    "waits": {
        "stream": ("INTEGER NOT NULL", "the number of the stream"),
        "id": ("TEXT NOT NULL", "names the wait in its stream"),
        "kind": ("TEXT NOT NULL", "what is waited for: approval, child, retry and so on"),
        "since": ("INTEGER NOT NULL", "from when, in microseconds of UTC"),
        "due_at": ("INTEGER", "when it ends by itself, in microseconds of UTC; NULL when it does not"),
        "asked_at_version": ("INTEGER NOT NULL", "the version of the event that asks"),
        "answered_at": ("INTEGER", "when it was answered, in microseconds of UTC; NULL while it is open"),
        "waits_on": ("TEXT", "the stream that is waited for, NULL for none"),
    },
    "types": {
        "number": ("INTEGER PRIMARY KEY", "stands for the type in the table of events"),
        "name": ("TEXT NOT NULL UNIQUE", "the versioned name of a type of events, step.started.v1"),
    },
    "commits": {
        "stream": ("INTEGER NOT NULL", "the number of the stream"),
        "version": ("INTEGER NOT NULL", "the version of the first event of the commit"),
        "position": (
            "INTEGER NOT NULL",
            "the position of the first event of the commit; the others follow it without a gap",
        ),
        "size": ("INTEGER NOT NULL", "how many events the commit has"),
        "commit_id": ("TEXT NOT NULL", "chosen by the writer, so that a commit that is sent twice is stored once"),
        "actor": ("TEXT NOT NULL", "who wrote the commit"),
        "causation": ("TEXT", "the id of what led to the commit"),
        "segment": ("INTEGER NOT NULL", "the stretch of the execution in which it was written, 0 outside of any"),
        "key_id": ("TEXT", "names the key that the contents are sealed with, NULL when they are not"),
        "digest": ("BLOB NOT NULL", "SHA-256 over the digest of the commit before and all that this commit says"),
    },
    "events": {
        "position": (
            "INTEGER PRIMARY KEY",
            "the place in the order of all streams; numbers may be left out, and none is used twice",
        ),
        "stream": ("INTEGER NOT NULL", "the number of the stream"),
        "version": ("INTEGER NOT NULL", "the place in its stream, from 1"),
        "type": ("INTEGER NOT NULL", "the number of the type"),
        "at": ("INTEGER NOT NULL", "the instant, in microseconds of UTC"),
        "state": ("BLOB NOT NULL", "JSON of the event; @blobs says what lies in the table of blobs"),
        "content": ("BLOB", "JSON of what people, models and tools said, in the form of the event; NULL for none"),
    },
    "blobs": {
        "digest": ("BLOB PRIMARY KEY NOT NULL", "SHA-256 of the body"),
        "body": ("BLOB NOT NULL", "JSON that was too large for its event, or the bytes of a file"),
    },
    "blob_uses": {
        "digest": ("BLOB NOT NULL", "SHA-256 of a body"),
        "stream": ("INTEGER NOT NULL", "the number of a stream with an event that refers to it"),
    },
    "erasures": {
        "stream": ("INTEGER PRIMARY KEY", "the number of the stream that was erased"),
        "position": (
            "INTEGER NOT NULL",
            "the position of the event that stands in the place of all others, stream.erased.v1",
        ),
        "at": ("INTEGER NOT NULL", "when, in microseconds of UTC"),
        "by": ("TEXT NOT NULL", "who asked for it"),
        "reason": ("TEXT NOT NULL", "why"),
        "events": ("INTEGER NOT NULL", "how many events were erased"),
        "digest": ("BLOB NOT NULL", "the digest of the last commit that was erased"),
    },
    "snapshots": {
        "stream": ("TEXT PRIMARY KEY NOT NULL", "the id of the stream"),
        "version": ("INTEGER NOT NULL", "the version that was reached"),
        "digest": ("BLOB NOT NULL", "the digest of the commit that ends there"),
        "format": ("TEXT NOT NULL", "the fold that can read the state, and its version"),
        "state": ("BLOB NOT NULL", "what the events up to the version come to"),
        "seal": ("BLOB NOT NULL", "SHA-256 over all of it, which shows damage"),
    },
    "followers": {
        "name": ("TEXT PRIMARY KEY NOT NULL", "chosen by who follows the log"),
        "position": ("INTEGER NOT NULL", "how far it has come"),
    },
    "leases": {
        "stream": ("TEXT PRIMARY KEY NOT NULL", "the id of the stream"),
        "token": ("TEXT NOT NULL", "the secret of the holder"),
        "owner": ("TEXT NOT NULL", "the process that holds the lease, for people"),
        "expires": ("timestamptz NOT NULL", "until when, by the clock of the server"),
    },
}
"""Table -> its columns, each with its type in the words of SQLite, and what it holds. Leases are a table of PostgreSQL
only; on SQLite they are locks of files."""

COLUMNS: Mapping[str, Mapping[LiteralString, str]] = {
    table: {name: kind for name, (kind, _) in columns.items()} for table, columns in _TABLES.items()
}
"""Table -> column -> its type."""

MEANINGS: Mapping[str, Mapping[str, str]] = {
    table: {name: meaning for name, (_, meaning) in columns.items()} for table, columns in _TABLES.items()
}
"""Table -> column -> what it holds."""
