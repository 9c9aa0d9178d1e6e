"""Write docs/views.md and the list of public columns from their description, or check that both are fresh.

python scripts/views_page.py            write them; not when a column that was listed is gone or another one
python scripts/views_page.py --check    fail when they are not what the code says
python scripts/views_page.py --break    write them although a column is gone, after it was announced as deprecated
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from steptrail.infrastructure.views.public import listed as rows_of
from steptrail.projections.runs_view.face import RUNS_FACE

_ROOT = Path(__file__).parents[1]
PAGE = _ROOT / "docs" / "views.md"
COLUMNS = _ROOT / "tests" / "golden" / "view_columns.txt"

HEAD = """\
# The views of runs

Made by `scripts/views_page.py` from what the code says. These views are in `current.db` in the folder `runs.db-views`
beside a SQLite store, and in the schema `steptrail_views` of a PostgreSQL one. `steptrail sql` and `trail.views.sql`
ask them ([how](guides/looking-after-a-store.md#read-models)). They keep their columns: new ones come at the end, and
one that is to go is announced a minor version before. `view_columns` lists all of them in SQL, and `projections` says
up to which position of the log they are counted. On SQLite an instant is a text in ISO 8601 and a boolean is 0 or 1.

A tenant that is a number, `7`, stands there as the text `7`. One of more than 64 characters stands there as the first
64, `…` and the SHA-256 of all of it as hexadecimal digits, so that no two are mixed up, and so do names and values of
tags; `trail.views`, `--tenant` and `--tag` are given the whole one.

"""


def page() -> str:
    """Return the page as it should be: a table for each view."""
    rows, parts = [*rows_of(RUNS_FACE, 0)], list[str]()
    for view in RUNS_FACE.views:
        of_view = [row for row in rows if row[0] == view.name]
        parts.append(f"## `{view.name}`\n\n{view.says[:1].upper()}{view.says[1:].rstrip('.')}.\n")
        lines = ["| column | type | what it holds | since |", "| --- | --- | --- | --- |"]
        for column, (_, _, name, kind, unit, since, deprecated, *_) in zip(view.columns, of_view, strict=True):
            said = f"{column.says}, in {unit}" if column.unit else column.says
            said += f"; goes away: {deprecated}" if deprecated else ""
            lines.append(f"| `{name}` | {kind} | {said.replace('|', chr(92) + '|')} | {since} |")
        parts.append("\n".join(lines) + "\n")
    return HEAD + "\n".join(parts)


def listed() -> list[str]:
    """Return a line for each public column, in order: its view, its name and its type."""
    return [f"{view.name} {column.name} {column.kind.value}" for view, column in RUNS_FACE.columns()]


def broken(before: list[str], now: list[str]) -> Iterator[str]:
    """Yield the views of which a column that was listed is gone, has moved or has another type."""
    present = {view: list(lines) for view, lines in groupby(now, key=_view)}
    for view, lines in groupby(before, key=_view):
        kept = list(lines)
        if present.get(view, [])[: len(kept)] != kept:
            yield view


def _view(line: str) -> str:
    return line.partition(" ")[0]


def main(arguments: list[str]) -> int:
    """Write both files, or with `--check` say whether they are fresh."""
    if arguments not in ([], ["--check"], ["--break"]):
        print(__doc__, file=sys.stderr)
        return 2
    columns = "".join(f"{line}\n" for line in listed())
    if arguments == ["--check"]:
        wanted = {PAGE: page(), COLUMNS: columns}
        stale = [path.name for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
        if stale:
            print(f"{', '.join(stale)}: stale, run `python scripts/views_page.py`", file=sys.stderr)
        return 1 if stale else 0
    before = COLUMNS.read_text("utf-8").splitlines() if COLUMNS.is_file() else []
    if not arguments and (gone := list(broken(before, listed()))):
        print(f"columns that people use are gone or have moved: {', '.join(gone)}", file=sys.stderr)
        return 1
    PAGE.write_text(page(), "utf-8")
    COLUMNS.write_text(columns, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
