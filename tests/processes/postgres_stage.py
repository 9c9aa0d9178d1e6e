"""The stage with its store on a PostgreSQL server."""

import subprocess
from pathlib import Path

from steptrail.testing.postgres_server import PostgresServer
from tests.processes.stage import Ended, Stage

__all__ = ["PostgresStage"]

_SIGKILLED = -9


class PostgresStage(Stage):
    """A stage on which the leases of the dead have always expired: nobody waits for their term to be over."""

    def __init__(self, folder: Path, server: PostgresServer, database: str) -> None:
        super().__init__(folder)
        (folder / "store").write_text(server.url(database), encoding="utf-8")
        self._server, self._database = server, database

    def end(self, process: "subprocess.Popen[str]") -> Ended:
        ended = super().end(process)
        if ended.code == _SIGKILLED and self._server.execute(
            "SELECT 1 WHERE to_regclass('steptrail.leases') IS NOT NULL", database=self._database
        ):
            self._server.execute("UPDATE steptrail.leases SET expires = clock_timestamp()", database=self._database)
        return ended
