"""The meaning of each table and column of a store, said once for every database.

PostgreSQL keeps these texts as comments on columns, and SQLite as comments in its schema, so that a shell shows them.
"""

from collections.abc import Mapping

__all__ = ["FORMAT", "MEANINGS", "MIN_READER"]

FORMAT = 4
"""The format that this version writes. Formats 1 to 3 were never released, and no version converts them."""
MIN_READER = 4
"""The oldest format whose readers understand what this version writes."""

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "store": {
        "format": "the format that the store was written in",
        "min_reader": "the oldest format whose readers understand this store",
    },
    "streams": {
        "number": "stands for the stream in the other tables",
        "id": "the kind and the id of a session, agent:order-7",
    },
    "types": {
        "number": "stands for the type in the table of events",
        "name": "the versioned name of a type of events, step.started.v1",
    },
    "commits": {
        "stream": "the number of the stream",
        "version": "the version of the first event of the commit",
        "position": "the position of the first event of the commit",
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
        "state": "JSON: @ is the instant in microseconds of UTC, @blobs says what lies in the table of blobs",
        "content": "JSON of what people, models and tools said, in the form of the event; NULL for none",
    },
    "blobs": {
        "digest": "SHA-256 of the body",
        "body": "JSON that was too large for its event",
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
