"""The stage with its store on a PostgreSQL server."""

from pathlib import Path

from steptrail.domain.json_value import JsonValue
from tests.harness.postgres_server import PostgresServer
from tests.harness.worker_pool import Worker, WorkerPool
from tests.processes.stage import Ended, Stage

_SIGKILLED = -9


class PostgresStage(Stage):
    """A stage on which the leases of the dead have always expired: nobody waits for their term to be over."""

    def __init__(self, folder: Path, pool: WorkerPool, server: PostgresServer, database: str) -> None:
        super().__init__(folder, pool)
        (folder / "store").write_text(server.url(database), encoding="utf-8")
        self._server, self._database = server, database

    def end(self, worker: Worker[dict[str, JsonValue]]) -> Ended:
        ended = super().end(worker)
        if ended.code == _SIGKILLED and self._server.execute(
            "SELECT 1 WHERE to_regclass('steptrail.leases') IS NOT NULL", database=self._database
        ):
            self._server.execute("UPDATE steptrail.leases SET expires = clock_timestamp()", database=self._database)
        return ended
