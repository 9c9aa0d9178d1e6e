"""How SQLite finds the events of a stream: by its commits.

The table of events has no key but the position. A commit says where its events stand, one behind the other, and commits
are found by stream and version. So an append writes into one place less than with a key over each event.
"""

LAST_VERSION = 2**63 - 1
"""Above every number and below every text: a hand may have written one where a version stands."""

OF_STREAM = "stream = (SELECT number FROM streams WHERE id = ?)"
"""The rows of a stream, whose id is the parameter."""

EVENTS_OF_COMMITS = (
    # CROSS keeps SQLite from beginning with the events.
    "commits c CROSS JOIN events e ON e.position >= c.position AND e.position < c.position + c.size "
    "AND e.stream = c.stream"
)

COMMIT_OF_EVENT = (
    "c.stream = e.stream AND c.version = "
    "(SELECT max(version) FROM commits WHERE stream = e.stream AND version <= e.version)"
)
"""The commit of an event, for questions that begin with events."""

BEGIN_OF = f"coalesce((SELECT max(version) FROM commits WHERE {OF_STREAM} AND version <= ?), 0)"  # noqa: S608
"""The version where the commit begins that holds an event of a stream. The parameters are the id and the version."""

NEWEST_VERSION = (
    f"SELECT e.version FROM {EVENTS_OF_COMMITS} WHERE c.{OF_STREAM} AND c.version <= ? AND e.version <= ? "  # noqa: S608
    "AND e.version >= c.version ORDER BY c.version DESC, e.position DESC LIMIT 1"
)
"""The version of the last event of a stream up to one. The parameters are the id and twice the version."""
