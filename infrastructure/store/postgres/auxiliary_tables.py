"""The tables beside the events of a PostgreSQL store: the statements that are its own."""

from steptrail.infrastructure.store.core.auxiliary_tables import AuxiliaryStatements

AUXILIARY = AuxiliaryStatements(
    states_with_blobs="SELECT state, content FROM steptrail.events WHERE position > %s::bigint "
    "AND position <= %s::bigint AND (substring(state FROM 1 FOR %s::integer) = %s "
    "OR substring(content FROM 1 FOR %s::integer) = %s)",
    snapshot="SELECT s.version, s.digest, s.format, s.state, s.seal, "
    # The digest of the commit that holds the version, unless it goes on behind it.
    "(SELECT c.digest FROM steptrail.commits c JOIN steptrail.streams n ON n.number = c.stream "
    "WHERE n.id = s.stream AND c.version <= s.version "
    "AND EXISTS (SELECT 1 FROM steptrail.events WHERE stream = c.stream AND version = s.version) "
    "AND (EXISTS (SELECT 1 FROM steptrail.commits WHERE stream = c.stream AND version = s.version + 1) "
    "OR NOT EXISTS (SELECT 1 FROM steptrail.events WHERE stream = c.stream AND version = s.version + 1)) "
    "ORDER BY c.version DESC LIMIT 1) "
    "FROM steptrail.snapshots s WHERE s.stream = %s",
    # One that comes late must not bring an erased stream back: it waits for an erasure that is on its way.
    keep_snapshot="WITH there AS (SELECT status FROM steptrail.streams WHERE id = %s FOR SHARE) "
    "INSERT INTO steptrail.snapshots (stream, version, digest, format, state, seal) "
    "SELECT %s, %s::bigint, %s::bytea, %s, %s::bytea, %s::bytea "
    "WHERE NOT EXISTS (SELECT 1 FROM there WHERE status = 'erased') "
    "ON CONFLICT (stream) DO UPDATE SET version = excluded.version, "
    "digest = excluded.digest, format = excluded.format, state = excluded.state, seal = excluded.seal",
)
