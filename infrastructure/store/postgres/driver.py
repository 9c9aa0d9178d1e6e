"""The driver of PostgreSQL, which only the extra `postgres` installs: one place where psycopg is made to suit us.

It is imported when a store asks for it. It raises `ServerFailure` for every error of psycopg, so that no other module
needs to know its classes. A statement has a deadline on our side too: the server's own timeouts help only while the
server is there to keep them.
"""

import math
import selectors
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, cast

from steptrail.domain.errors import MissingExtra

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

Row = tuple[Any, ...]

if TYPE_CHECKING:

    class Connection(psycopg.Connection[Row]):
        """The driver's connection, and what we keep beside it."""

        patience: float
        gives_up_at: "GivesUpAt"
        ears: selectors.BaseSelector
        prepared: set[bytes]
        types: dict[str, int]
        types_of: int
        server: str
        owes_answer: bool
else:
    Connection = Any

T = TypeVar("T")
GivesUpAt = Callable[[], float]
"""Returns when nobody waits for the server any more, by the monotonic clock. It is asked again while somebody waits."""

_DEFAULTS = {"connect_timeout": "10", "application_name": "steptrail", "keepalives_idle": "30"}
_ALWAYS = {"client_encoding": "UTF8"}
_SECONDS_OF_GRACE = 1.0
"""How much later than the server we give up: its own timeout leaves the connection whole and says more."""
_LOOK_SECONDS = 0.1
"""How often to look whether it is time to give up. The driver does so as well."""

ONLY_READS = "25006"
"""The code of a server, or a connection, that takes no write."""
GAVE_WAY = {"40001", "40P01"}
"""The codes of a transaction that the server undid because others could not go on beside it: it may be done again."""
_ENDED = {"57P0", "0800"}
"""How codes begin that end a connection. They may come when a statement was already committed."""


class ServerFailure(Exception):
    """An error of the driver: its text and the server's code for it (SQLSTATE), None when the server is not there.

    `is_lost` means that the connection is gone, so that the outcome of the work is unknown; `is_late`, that the server
    was given up on because it did not answer.
    """

    def __init__(self, text: str, *, state: str | None, is_lost: bool, is_late: bool = False) -> None:
        super().__init__(text)
        self.text, self.state, self.is_lost, self.is_late = text, state, is_lost, is_late


def parse_address(url: str) -> dict[str, str]:
    """Return the connection parameters in an address.

    Raises `MissingExtra` without the driver, and `ValueError`, which does not repeat the address, for one that is not
    understood.
    """
    _load()
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (ProgrammingError, UnicodeError):
        # What the driver says repeats parts of the address, and the password may be one of them.
        raise ValueError from None


def connect(parameters: Mapping[str, str], *, patience: float, gives_up_at: GivesUpAt = lambda: math.inf) -> Connection:
    """Open a connection that commits each statement by itself. Raises `ServerFailure`.

    `patience` is how long the server takes at most before it gives a statement up, in seconds; we wait a little longer,
    and not past `gives_up_at`.
    """
    import psycopg

    try:
        made = _patient_class(gives_up_at)
        connection = made.connect("", **{**_DEFAULTS, **parameters, **_ALWAYS}, autocommit=True)
    except psycopg.Error as error:
        raise ServerFailure(str(error).strip(), state=error.sqlstate, is_lost=True) from None
    except OSError as error:  # no descriptor was left for what waits for the server
        raise ServerFailure(str(error), state=None, is_lost=True) from None
    connection.patience, connection.gives_up_at = patience + _SECONDS_OF_GRACE, gives_up_at
    connection.prepared, connection.types, connection.types_of, connection.server = set(), {}, 0, ""
    connection.owes_answer = False
    connection.ears = Ears()
    connection.ears.register(connection.fileno(), selectors.EVENT_READ)
    return cast(Connection, connection)


def attempt(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Return `work(connection)`. What the driver raises becomes a `ServerFailure`; a lost connection is closed."""
    import psycopg

    try:
        return work(connection)
    except _late_answer() as error:
        raise ServerFailure(str(error), state=None, is_lost=True, is_late=True) from error
    except psycopg.Error as error:
        is_lost = connection.closed or (error.sqlstate or "")[:4] in _ENDED
        if is_lost:
            connection.close()
        raise ServerFailure(str(error).strip(), state=error.sqlstate, is_lost=is_lost) from error


def fetch_all(connection: Connection, statement: LiteralString, parameters: Sequence[object] = ()) -> list[Row]:
    """Return the rows of a statement, which the server keeps prepared. For work that `attempt` runs."""
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(statement, parameters, prepare=True).fetchall()


@contextmanager
def together(connection: Connection) -> Generator[None]:
    """Make one transaction of the statements inside, which an exception undoes. For work that `attempt` runs."""
    try:
        with connection.transaction():
            yield
    except BaseException:
        # Behind a transaction that was undone the driver has the server drop all that is prepared, ours included, but
        # only where it has prepared something itself. So it is dropped here, where it may be there still.
        connection.prepared.clear()
        _forget_prepared(connection)
        raise


def undone(why: str) -> Exception:
    """Return the error of what the server was not let do, and may do when it is asked again. For work of `attempt`."""
    import psycopg

    return psycopg.errors.SerializationFailure(why)


def _forget_prepared(connection: Connection) -> None:
    import psycopg

    try:
        connection.execute("DEALLOCATE ALL")
    except psycopg.Error:
        connection.close()


def answer_on(connection: Connection) -> "PGresult":
    """Return what the server says to what was sent without a cursor. For work that `attempt` runs."""
    import psycopg.generators

    ears, socket, deadline = connection.ears, connection.fileno(), time.monotonic() + connection.patience
    steps: Generator[int, int, list[PGresult]] = psycopg.generators.execute(connection.pgconn)
    try:
        wanted = next(steps)
        while True:
            if wanted != selectors.EVENT_READ:
                ears.modify(socket, wanted)
            ready = ears.select(min(max(0.0, deadline - time.monotonic()), _LOOK_SECONDS))
            if wanted != selectors.EVENT_READ:
                ears.modify(socket, selectors.EVENT_READ)
            if not ready and time.monotonic() >= min(deadline, connection.gives_up_at()):
                connection.close()
                raise _late_answer()("the server did not answer in time")
            wanted = steps.send(ready[0][1] if ready else 0)
    except StopIteration as end:
        answer: PGresult = end.value[-1]
    if answer.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        raise psycopg.errors.error_from_result(answer, encoding=connection.info.encoding)
    return answer


def send_unasked(connection: Connection, query: LiteralString) -> None:
    """Send a query that may get lost, and wait for no answer. `take_answer` must come before the next statement."""
    import psycopg

    if connection.closed or connection.owes_answer:
        return
    try:
        connection.pgconn.send_query(query.encode())
    except psycopg.Error:
        connection.close()
    else:
        connection.owes_answer = True


def take_answer(connection: Connection) -> None:
    """Take the answer to what was sent unasked, whatever it is. Closes a connection that is of no use any more."""
    if connection.closed or not connection.owes_answer:
        return
    connection.owes_answer = False
    try:
        attempt(connection, answer_on)
    except ServerFailure:
        return


def has_something_to_say(connection: Connection) -> bool:
    """Tell whether an idle connection has received something unasked, as it has when the server ended it."""
    return bool(connection.ears.select(0))


def _load() -> None:
    try:
        import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingExtra("a store at postgresql://", "postgres", "psycopg") from error


# One that takes no descriptor, which somebody would have to close, and which there may be none of.
Ears: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)

# The classes are made on first use, because what they derive from is imported only then.


@cache
def _late_answer() -> "type[psycopg.OperationalError]":
    import psycopg

    class LateAnswer(psycopg.OperationalError):
        pass

    return LateAnswer


def _patient_class(gives_up_at: GivesUpAt) -> "type[Any]":
    import psycopg

    class PatientConnection(psycopg.Connection[Row]):
        patience = math.inf

        def wait(self, gen: "PQGen[T]", *args: Any, **kwargs: Any) -> T:
            try:
                return super().wait(_until(time.monotonic() + self.patience, gives_up_at, gen), *args, **kwargs)
            except _late_answer():
                # At once: a server that is silent cannot undo a transaction either, and the driver would warn of that.
                self.close()
                raise

        @classmethod
        def _connect_gen(cls, *args: Any, **kwargs: Any) -> Any:
            return _until(math.inf, gives_up_at, super()._connect_gen(*args, **kwargs))

    return PatientConnection


def _until(deadline: float, gives_up_at: GivesUpAt, gen: "Generator[Any, Any, T]") -> "Generator[Any, Any, T]":
    # The driver looks in several times a second while it waits, and sends what it found: nothing, then.
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > min(deadline, gives_up_at()):
                raise _late_answer()("the server did not answer in time")
            wanted = gen.send(ready)
    except StopIteration as end:
        return cast(T, end.value)
