"""The meaning of each table and column of a store, said once for every database.

PostgreSQL keeps these texts as comments on columns, and SQLite as comments in its schema, so that a shell shows them.
"""

from collections.abc import Mapping

FORMAT = 9
"""The format that this version writes. Formats 1 to 8 were never released, and no version converts them."""
MIN_READER = 9
"""The oldest format whose readers understand what this version writes."""

INDEXES: Mapping[str, str] = {
    "streams_due": "streams (due_at, id) WHERE due_at IS NOT NULL",
    "streams_working": "streams (number) WHERE standing = 'working'",
    "streams_below": "streams (parent) WHERE parent IS NOT NULL",
    "streams_open_below": "streams (number) WHERE parent IS NOT NULL AND standing <> 'done'",
    "streams_forked": "streams (fork_of) WHERE fork_of IS NOT NULL",
    "blobs_of_streams": "blob_uses (stream)",
    "waits_for_streams": "waits (stream) WHERE waits_on IS NOT NULL",
    "waits_open": "waits (kind, since) WHERE answered_at IS NULL",
}
"""Name -> table, columns and condition: only what is open, or few have, is in them, so they stay small."""

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "store": {
        "format": "the format that the store was written in",
        "min_reader": "the oldest format whose readers understand this store",
    },
    "streams": {
        "number": "stands for the stream in the other tables",
        "id": "the kind and the id of a session, agent:order-7",
        "version": "the version that the columns from here on speak of; they are written when the standing changes",
        "name": "the name of the agent that the last run was begun with",
        "status": "pending, in_progress, paused, waiting, completed or failed; erased when nothing else is left",
        "standing": "where it stands for an owner: pending, working, resting, paused or done",
        "stop_reason": "why the last run stopped, NULL while it is open",
        "resolved_by": "the criterion that decided so",
        "answered": "whether the last run stopped with an answer of its own, also at a limit",
        "due_at": "from when an owner can go on without help, in microseconds of UTC; NULL when help must come first",
        "paused_by": "who paused it while it is paused",
        "recorded_errors": "after how many failures of nodes the last run went on, 0 while it is open",
        "executions": "how many runs have begun",
        "steps": "how many steps of the last run were recorded",
        "active_seconds": "the active time of the last run",
        "cost": "JSON: the cost of the last run, NULL without prices",
        "parent": "the stream above, NULL for none",
        "began_by": "JSON: the call of the stream above that began it",
        "fork_of": "the stream whose past it shares, NULL for none",
        "started_at": "the instant of the first event, in microseconds of UTC",
        "updated_at": "the instant of the event at that version, in microseconds of UTC",
        "damage": "what a reader has met that it could not read",
    },
    "waits": {
        "stream": "the number of the stream",
        "id": "names the wait in its stream",
        "kind": "what is waited for: approval, child, retry and so on",
        "since": "from when, in microseconds of UTC",
        "due_at": "when it ends by itself, in microseconds of UTC; NULL when it does not",
        "asked_at_version": "the version of the event that asks",
        "answered_at": "when it was answered, in microseconds of UTC; NULL while it is open",
        "waits_on": "the stream that is waited for, NULL for none",
    },
    "types": {
        "number": "stands for the type in the table of events",
        "name": "the versioned name of a type of events, step.started.v1",
    },
    "commits": {
        "stream": "the number of the stream",
        "version": "the version of the first event of the commit",
        "position": "the position of the first event of the commit; the others follow it without a gap",
        "size": "how many events the commit has",
        "commit_id": "chosen by the writer, so that a commit that is sent twice is stored once",
        "actor": "who wrote the commit",
        "causation": "the id of what led to the commit",
        "segment": "the stretch of the execution in which it was written, 0 outside of any",
        "key_id": "names the key that the contents are sealed with, NULL when they are not",
        "digest": "SHA-256 over the digest of the commit before and all that this commit says",
    },
    "events": {
        "position": "the place in the order of all streams; numbers may be left out, and none is used twice",
        "stream": "the number of the stream",
        "version": "the place in its stream, from 1",
        "type": "the number of the type",
        "at": "the instant, in microseconds of UTC",
        "state": "JSON of the event; @blobs says what lies in the table of blobs",
        "content": "JSON of what people, models and tools said, in the form of the event; NULL for none",
    },
    "blobs": {
        "digest": "SHA-256 of the body",
        "body": "JSON that was too large for its event",
    },
    "blob_uses": {
        "digest": "SHA-256 of a body",
        "stream": "the number of a stream with an event that refers to it",
    },
    "erasures": {
        "stream": "the number of the stream that was erased",
        "position": "the position of the event that stands in the place of all others, stream.erased.v1",
        "at": "when, in microseconds of UTC",
        "by": "who asked for it",
        "reason": "why",
        "events": "how many events were erased",
        "digest": "the digest of the last commit that was erased",
    },
    "snapshots": {
        "stream": "the id of the stream",
        "version": "the version that was reached",
        "digest": "the digest of the commit that ends there",
        "format": "the fold that can read the state, and its version",
        "state": "what the events up to the version come to",
        "seal": "SHA-256 over all of it, which shows damage",
    },
    "followers": {
        "name": "chosen by who follows the log",
        "position": "how far it has come",
    },
    "leases": {
        "stream": "the id of the stream",
        "token": "the secret of the holder",
        "owner": "the process that holds the lease, for people",
        "expires": "until when, by the clock of the server",
    },
}
"""Table -> column -> what it holds. Leases are a table of PostgreSQL only; on SQLite they are locks of files."""
