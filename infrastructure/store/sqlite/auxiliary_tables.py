"""The tables beside the events of a SQLite store: the statements that are its own."""

from steptrail.infrastructure.store.core.auxiliary_tables import AuxiliaryStatements

AUXILIARY = AuxiliaryStatements(
    states_with_blobs="SELECT state, content FROM events WHERE position > ? AND position <= ? AND "
    "(substr(state, 1, ?) = ? AND typeof(state) = 'blob' OR substr(content, 1, ?) = ? AND "
    "typeof(content) = 'blob')",
    snapshot="SELECT s.version, s.digest, s.format, s.state, s.seal, "
    # The digest of the commit that ends with the version.
    "(SELECT c.digest FROM streams n JOIN commits c ON c.stream = n.number AND c.version = "
    "(SELECT max(version) FROM commits WHERE stream = n.number AND version <= s.version) "
    "JOIN events e ON e.position = c.position + c.size - 1 AND e.stream = c.stream AND e.version = s.version "
    "WHERE n.id = s.stream) FROM snapshots s WHERE s.stream = ?",
    # One that comes late must not bring an erased stream back.
    keep_snapshot="WITH gone AS (SELECT 1 FROM streams WHERE id = ? AND status = 'erased') "
    "INSERT OR REPLACE INTO snapshots SELECT ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM gone)",
)
