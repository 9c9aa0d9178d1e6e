"""A real PgBouncer for tests, in front of a PostgreSQL server, on a free port of the loopback device."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from steptrail.domain.errors import ConfigurationError

_NOBODY = 65534
_STARTING_SECONDS = 30


@contextmanager
def pooler(server_port: int, mode: str, *settings: str) -> Generator[int]:
    """Yield the port of a pooler in the mode `session` or `transaction`; everybody on this machine may connect.

    `settings` are further lines of its configuration. Raises `ConfigurationError` when there is no PgBouncer.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        raise ConfigurationError("no PgBouncer was found: install the package pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="steptrail-pooler-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    lines = [
        "[databases]",
        f"* = host=127.0.0.1 port={server_port}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        "auth_type = any",
        f"pool_mode = {mode}",
        *settings,
    ]
    # Whoever connects is this user of the server: with `any` the name that is given does not count.
    lines[1] += " user=postgres"
    configuration = folder / "pgbouncer.ini"
    configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
    account = _NOBODY if os.geteuid() == 0 else None
    if account is not None:
        for path in (folder, configuration):
            os.chown(path, account, account)
    process = subprocess.Popen(
        [program, str(configuration)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        user=account,
        group=account,
        extra_groups=None if account is None else [],
    )
    try:
        deadline = time.monotonic() + _STARTING_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                said = b"" if process.stderr is None or process.poll() is None else process.stderr.read()
                raise ConfigurationError(f"PgBouncer did not start: {said.decode(errors='replace')}")
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
