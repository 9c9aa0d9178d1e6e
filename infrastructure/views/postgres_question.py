"""Questions that somebody else has written to the read models in a database of PostgreSQL.

A transaction that only reads keeps no function from reading files, ending other sessions or holding locks, and no
question from reading the log. So a question that names such a function is not run. What it reads is looked at before
its first row is made, and again before a row is given out: a function reads what the question does not name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from steptrail.domain.errors import QueryRefused
from steptrail.infrastructure.views.database import Selected, TimeToAnswer, bytes_of, taken
from steptrail.projections.kernel.table import Scalar

CANCELLED = "57014"
_OTHER_NUMBER_OF_VALUES = "08P01"
_OF_THE_TEXT = {"0A", "20", "21", "22", "23", "25", "26", "2F", "34", "38", "39", "42", "54", "P0"}
"""How codes begin that speak of a question, and not of the server."""
_MOST_ROWS, _MOST_BYTES = 500, 1_000_000
"""How much is fetched at once."""

_WORD = re.compile(r"[\w$]+")
_HIDDEN_NAME = re.compile(r"""u&["']""", re.IGNORECASE)
"""Begins a name whose letters may be written as numbers."""
_ACTING = (
    "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
    "WHERE lower(p.proname) = ANY($1) AND p.proname <> ALL($2) AND 'internal'::regtype <> ALL(p.proargtypes) "
    "AND CASE WHEN n.nspname = 'pg_catalog' "
    "THEN p.provolatile = 'v' OR p.proname ~ '^pg_|_to_xml|^current_setting$' "
    "ELSE p.provolatile <> 'i' AND (lower(n.nspname) = ANY($1) OR n.nspname !~ '^\\w+$') END"
)
"""A server is told of each function whether it does more than compute and read: then it is volatile. Others of its own
tell of the server and its sessions, or make XML of tables that they are told by name. Those of other schemas are only
found with the name of that, and those with an internal argument by nobody."""
_HARMLESS = [
    *("clock_timestamp", "gen_random_uuid", "random", "random_normal", "timeofday"),
    *("pg_collation_for", "pg_column_size", "pg_size_bytes", "pg_size_pretty", "pg_typeof"),
]
"""Volatile because each call has another result, and those with the server's prefix that compute and no more."""
_IN_USE = "SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND relation IS NOT NULL"
"""A transaction has locked all that it reads, also what a view reads."""
_OTHERS = (
    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = ANY($1) AND n.nspname !~ $2 "
    "ORDER BY array_position('{v,m,f,p,r}'::\"char\"[], c.relkind), c.oid"
)
"""The first is what the question says: a view before the tables that it reads, and those before their indexes."""
_OF_THE_SERVER = "|^pg_(catalog|toast)$"
"""Where functions look things up that compute and no more, such as the words of a language."""

Run = Callable[[str, Sequence[Any]], Any]


def selected(
    run: Run, text: str, values: Sequence[Scalar], most: int, schema: str, until: TimeToAnswer | None
) -> Selected:
    """Return the first rows of a question to the read models below `schema`; `run` runs one statement.

    Raises `QueryRefused` for one that is not understood, does more than read them, or takes too long.
    """
    import psycopg

    try:
        _refuse_what_acts(run, text)
        before = _in_use(run)
        # Only what selects can be declared, and only one statement is prepared. Nothing of it has run yet.
        run(f"DECLARE asked NO SCROLL CURSOR FOR {text}", values)
        own = rf"^{schema}(_[0-9]+)?$"
        _refuse_other_tables(run, _in_use(run) - before, own)
        first = run("FETCH 1 FROM asked", ())
        rows, is_cut = taken(_rest_of(first, run, until), most)
        _refuse_other_tables(run, _in_use(run) - before, own + _OF_THE_SERVER)
    except (psycopg.Error, UnicodeError) as error:
        state = getattr(error, "sqlstate", None)
        # A value that the driver cannot send or take has no code.
        is_of_a_value = state is None and isinstance(error, psycopg.DataError | UnicodeError)
        is_of_the_text = state == _OTHER_NUMBER_OF_VALUES or (state or "")[:2] in _OF_THE_TEXT
        if not is_of_a_value and not is_of_the_text:
            raise
        raise _refused(_said(error)) from error
    return Selected([each.name for each in first.description or ()], rows, is_cut)


def _refuse_what_acts(run: Run, text: str) -> None:
    if "\0" in text:
        # What stands behind it would not reach the server.
        raise _refused("it contains a null character")
    if _HIDDEN_NAME.search(text):
        raise _refused('names and texts in U&"…" are not taken')
    acting = run(_ACTING, (sorted(set(_WORD.findall(text.lower()))), _HARMLESS)).fetchone()
    if acting is not None:
        raise _refused(f"{acting[0]} may do more than read the views; where it is a value, write $1 and give it beside")


def _in_use(run: Run) -> set[int]:
    return {oid for (oid,) in run(_IN_USE, ()).fetchall()}


def _refuse_other_tables(run: Run, used: set[int], allowed: str) -> None:
    other = run(_OTHERS, (sorted(used), allowed)).fetchone()
    if other is not None:
        raise _refused(f"{other[0]} is none of the read models: they are listed in view_columns")


def _rest_of(fetched: Any, run: Run, until: TimeToAnswer | None) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a fetch and of all after it. Few are held at once where they are large."""
    many, widest = 1, 1
    while rows := fetched.fetchall():
        yield from rows
        if until is not None and until.is_over:
            raise until.late()
        widest = max(widest, *map(bytes_of, rows))
        many = max(1, min(2 * many, _MOST_ROWS, _MOST_BYTES // widest))
        fetched = run(f"FETCH {many} FROM asked", ())


def _said(error: Exception) -> str:
    """Return what an error says, without the line of it that quotes our statement around the question."""
    told = getattr(error, "diag", None)
    parts = (told.message_primary, told.message_detail, told.message_hint) if told is not None else ()
    return ". ".join(" ".join(each.rstrip(".").split()) for each in parts if each) or " ".join(str(error).split())


def _refused(why: str) -> QueryRefused:
    return QueryRefused(f"the question was refused: {why}")
