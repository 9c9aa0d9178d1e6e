"""Kill a run at every fault point, print what became of it, and write docs/reliability.md.

python scripts/crash_matrix.py [--store sqlite,postgres]    run every cell and write the page
python scripts/crash_matrix.py --check                      fail when the page does not have the rows of the code
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from steptrail.runtime.faults import FAULT_POINTS
from steptrail.testing.crash_matrix import COLUMNS, Row, kill_everywhere, rows, table
from steptrail.testing.crew import Crew
from steptrail.testing.errand import VARIANTS
from steptrail.testing.store_urls import store_to_use_up

__all__ = ["PAGE", "complaints", "main", "page", "read_rows"]

_COUNTS = Row._fields[3:]
_HARM = ("events_lost", "tools_repeated", "keyed_without_id", "unsafe_repeated")
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"

HEAD = """\
# Reliability

<!-- Written by scripts/crash_matrix.py (make crash-matrix); a test fails when its rows are not those of the code. -->

What a killed process may leave behind, measured. A run is killed with SIGKILL at a named point, another process goes on
with it, and what both left is compared with what happened in the outside world and with a run that nobody killed.
"""

MEANING = """\
## What was run

One agent: its model fails once, so that a wait is sat out; then it asks for two tools, then it answers. It has a hook
of every type. Each row is one fault point of the runner, one store and one class of effect; each kill in it is a
session of its own, killed when a process comes by that point the first time, the second time and so on to the last. So
the appends include the start, every result, the decisions, what hooks changed, and the end. For a call that waits for a
person (`unsafe, park`) the person looks at the outside world and says what happened.

Tools write to a ledger, a file that knows nothing of the log, before and when they take effect; so does the process
whenever it is told that events are stored.

## What the columns mean

| column | what is counted |
| --- | --- |
| kills | processes that died at the point; each was gone on with in another process |
| events lost | events that a process was told are stored, or that were there after the kill, and are gone or changed |
| finished tools repeated | tool calls that ran again although the log knew their end |
| `keyed` without its id | effects of `keyed` tools under an id that the log does not know |
| `unsafe` repeated | effects of `unsafe` tools that happened twice |
| log whole | sessions without a gap in their versions, whose digests all verify |
| same outcome | sessions that ended with the status, the stop reason and the answer of the run that nobody killed |

Unless an `unsafe` call stayed unknown, the same outcome also means the same events, messages and metadata, but for
times and for what a resume adds (`steptrail.testing.normalise`).

A tool that was cut off after it began and before its end was stored may have run twice when it is `read`, `idempotent`
or `keyed`: that is what the class allows, and the log shows it as a second start. An `unsafe` one is never started
again; what follows is said by `on_unknown` ([effect classes](guides/tools-and-effects.md)).

A SIGKILL says nothing about a power cut: for that, `durability="full"` waits for the disk at every commit.

## What else is run

`make soak` goes where no named point is: sessions that are killed at random moments again and again; eight processes
that contend for one session while a ninth sends messages and stops; 100,000 events by eight writers while three readers
follow, with kills of both. Every test run does the same on a smaller scale. All of it is in `steptrail.testing`, for
agents of your own too ([how](guides/testing-your-agent.md#a-crash)).

"""


def page(lines: Sequence[Row]) -> str:
    """Return the whole page about these rows."""
    return f"{HEAD}\n{''.join(_summary(lines))}\n{MEANING}## The matrix\n\n{table(lines)}"


def _summary(lines: Sequence[Row]) -> Iterable[str]:
    head = ("store", *COLUMNS[3:])
    yield f"| {' | '.join(head)} |\n| --- |{' ---: |' * len(COLUMNS[3:])}\n"
    for store in dict.fromkeys(line.store for line in lines):
        of_store = [line for line in lines if line.store == store]
        sums = [sum(getattr(line, field) or 0 for line in of_store) for field in _COUNTS]
        yield f"| {store} | {' | '.join(map(str, sums))} |\n"


def read_rows(text: str) -> list[Row]:
    """Read the rows of the matrix back from a page."""
    _, _, matrix = text.partition(table([]))
    found: list[Row] = []
    for line in matrix.splitlines():
        point, store, effect_class, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        kills, lost, tools, keyed, unsafe, whole, same = (int(number) if number else None for number in numbers)
        found.append(
            Row(point, store, effect_class, kills or 0, lost or 0, tools or 0, keyed, unsafe, whole or 0, same or 0)
        )
    return found


def complaints(text: str) -> Iterable[str]:
    """Say what is wrong with a page: its form, its rows, or what they show."""
    try:
        lines = read_rows(text)
    except (ValueError, TypeError):
        lines = []
    if not lines or page(lines) != text:
        yield "it is not what this script writes"
    expected = [(f"`{point}`", str(variant)) for point in FAULT_POINTS for variant in VARIANTS]
    for store in dict.fromkeys(line.store for line in lines):
        found = [(line.point, line.effect_class) for line in lines if line.store == store]
        if sorted(found) != sorted(expected):
            yield f"its rows for {store} are not the fault points and effect classes of the code"
    for line in lines:
        whole = line.kills > 0 and line.log_whole == line.same_outcome == line.kills
        if not whole or any(getattr(line, field) for field in _HARM):
            yield f"a promise is broken: {line}"


def main(arguments: Sequence[str]) -> int:
    """Run the matrix and write the page, or with `--check` say whether it has the rows of the code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite", help="stores to run on, separated by commas: sqlite, postgres")
    parser.add_argument("--check", action="store_true", help="only look at the page that is there")
    given = parser.parse_args(arguments)
    if not given.check:
        with tempfile.TemporaryDirectory() as scratch, Crew() as crew:
            lines = [line for name in given.store.split(",") for line in _run(crew, name, Path(scratch))]
        PAGE.write_text(page(lines), encoding="utf-8")
        print(table(lines))
    found = list(complaints(PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""))
    for complaint in found:
        print(f"docs/reliability.md: {complaint}: run `make crash-matrix`", file=sys.stderr)
    return 1 if found else 0


def _run(crew: Crew, store: str, folder: Path) -> list[Row]:
    with store_to_use_up(store, folder) as url:
        cells = [cell for variant in VARIANTS for cell in kill_everywhere(crew, url, folder, variant)]
    for cell in cells:
        if not cell.finding.is_good:
            print(f"{store}: {cell}", file=sys.stderr)
    return rows(store, cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
