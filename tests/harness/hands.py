"""Hands that change what is stored behind the back of a store, through a view that shows what is damaged as well."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_VIEW = """
CREATE TEMP VIEW stored_events AS
SELECT e.position, s.id AS stream, e.version, t.name AS type, e.at, e.state, e.content,
    c.version AS commit_version, c.commit_id, c.actor, c.causation, c.segment, c.key_id, c.digest
FROM events e
LEFT JOIN streams s ON s.number = e.stream
LEFT JOIN types t ON t.number = e.type
LEFT JOIN commits c ON c.stream = e.stream AND c.version = (
    SELECT max(version) FROM commits WHERE stream = e.stream AND version <= e.version);
CREATE TEMP TRIGGER hand_changes INSTEAD OF UPDATE ON stored_events BEGIN
    INSERT OR IGNORE INTO types (name) SELECT new.type WHERE new.type IS NOT old.type;
    UPDATE events SET position = new.position, version = new.version, at = new.at,
        state = new.state, content = new.content,
        stream = CASE WHEN new.stream IS old.stream THEN stream
                 WHEN new.stream IN (SELECT number FROM streams) THEN 'none'
                 ELSE coalesce((SELECT number FROM streams WHERE id = new.stream), new.stream, 'none') END,
        type = CASE WHEN new.type IS old.type THEN type
               ELSE coalesce((SELECT number FROM types WHERE name = new.type), 'none') END
    WHERE position = old.position;
    UPDATE commits SET commit_id = new.commit_id, actor = new.actor, causation = new.causation,
        segment = new.segment, key_id = new.key_id, digest = new.digest
    WHERE version = old.version AND stream = (SELECT number FROM streams WHERE id = old.stream)
        AND (commit_id, actor, causation, segment, key_id, digest)
            IS NOT (new.commit_id, new.actor, new.causation, new.segment, new.key_id, new.digest);
END;
CREATE TEMP TRIGGER hand_removes INSTEAD OF DELETE ON stored_events BEGIN
    DELETE FROM events WHERE position = old.position;
END;
"""


@contextmanager
def by_hand(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Connect to a store of SQLite with a view `stored_events` that can be changed, and commit at the end.

    An event that is deleted leaves the row of its commit. A stream is named by its id; what is no id leads to none.
    """
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_VIEW)
        with connection:
            yield connection
    finally:
        connection.close()


def change_by_hand(path: Path, statement: str, *parameters: object) -> None:
    """Run a statement that changes what is stored. Fails when it changes nothing."""
    with by_hand(path) as connection:
        before = connection.total_changes
        connection.execute(statement, parameters)
        assert connection.total_changes > before
