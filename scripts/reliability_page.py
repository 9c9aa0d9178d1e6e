"""The page docs/reliability.md: what the crash harness found, as it stands in the tables, and back again.

`scripts.crash_matrix`, `scripts.soak` and `scripts.power_cut` each write their own rows and leave those of the others,
and of stores that were not run, as they are.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.harness.crash_matrix import COLUMNS, SUBJECTS, Row, table
from tests.harness.store_urls import STORES

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"

T = TypeVar("T")

_COUNTS = Row._fields[3:]
_HARM = ("events_lost", "tools_repeated", "keyed_without_id", "unsafe_repeated")

HEAD = """\
# Reliability

<!-- Written by make crash-matrix, make soak and make power-cut; a test fails when the rows are not the code's. -->

What a killed process may leave behind, measured. A run is killed with SIGKILL at a named point, another process goes on
with it, and what both left is compared with what happened in the outside world and with a run that nobody killed.
"""

MEANING = """\
## What was run

*Agents.* One agent: its model fails once, so that a wait is sat out; then it asks for two tools, which run one after
the other or *side by side*, and for an external one, which a person answers; then what was said before is summed up by
a model; then it answers. It has a hook of every type and instructions for each step, and its input and the results of
its tools have files. Each row is one fault point of the runner, one store and one class of effect; each kill in it is a
session of its own, killed when a process comes by that point the first time, the second time and so on to the last. So
the appends include the start, every result with its file, the question and its answer, the decisions, what hooks and
instructions changed, the summary, and the end. Side by side, the second call takes effect when the first one's end is
stored, so that every run comes by the same points. For a call that waits for a person (`unsafe, park`) the person looks
at the outside world and says what happened.

*Workflows.* A node that fails once and is tried again, then what takes effect, then a node at the end: one tool, four
side by side, an agent or another workflow as a node, a map of three items two at a time, a request to a person and a
tool behind it, or a tool that fails once and is tried again. What runs side by side ends one after the other, as with
agents. A tool whose outcome stays unknown waits for the person (`unsafe, park`), or is recorded as a failure with which
the run goes on (`unsafe, fail`). The runs below are killed at their points too.

Tools write to a ledger, a file that knows nothing of the log, before and when they take effect; so does the process
whenever it is told that events are stored.

## What the columns mean

| column | what is counted |
| --- | --- |
| kills | processes that died at the point; each was gone on with in another process |
| events lost | events that a process was told are stored, or that were there after the kill, and are gone or changed |
| finished tools repeated | tools and nodes that ran again after their end, questions asked and runs begun twice |
| `keyed` without its id | effects of `keyed` tools under an id that the log does not know |
| `unsafe` repeated | effects of `unsafe` tools that happened twice |
| log whole | sessions without a gap, whose digests all verify, with all files; and the runs below them |
| same outcome | sessions that ended with the status, the stop reason and the answer of the run that nobody killed |

Unless an `unsafe` call stayed unknown, the same outcome also means the same events, messages and metadata, but for
times and for what a resume adds (`steptrail.testing.normalise`); of a workflow the same variables, and the same visits
with the same conclusions.

A tool that was cut off after it began and before its end was stored may have run twice when it is `read`, `idempotent`
or `keyed`: that is what the class allows, and the log shows it as a second start. An `unsafe` one is never started
again; what follows is said by `on_unknown` ([effect classes](guides/tools-and-effects.md)).

A SIGKILL says nothing about a power cut: that is the next table.

"""

CUT = """\
## A power cut

`make power-cut` records every write and every sync of real runs on SQLite and builds each state that a file system may
leave when the power goes at any moment: what was synced is there; of what was written since, anything may be, all,
none, a beginning, one write without those before it, half of one; and of files that were made or removed, either. Each
state is opened, every session of it is verified, and it is written to. Making a store is gone through without leaving
anything out; of longer runs a part is drawn.

With `durability="full"` nothing is lost that somebody was told is stored. With `normal` it may be, everything since the
last checkpoint, which is every 4 MB of log and when the last process closes the store; what is left is what stood there
at some earlier moment. Effects whose events are lost happen again when a run is gone on with, `unsafe` ones too.

"""

SOAK = """\
## Where no point is

`make soak STORE=sqlite,postgres` goes on for minutes where no named point is. Writers append while readers follow, and
processes of both are killed. Eight processes contend for one session while a ninth sends messages and stops. Sessions
are killed at random moments again and again. Six processes take one session from each other, stop and pause it, say
things and answer its approvals, each with pauses between any two looks at the store, while they are stopped, woken and
killed. Four people answer the same approvals at the same moment. Eight workers carry on 500 sessions that were started
and left to them, some of which ask a person, while one worker is killed every three seconds. Four do so where
procrastinate wakes them. Four carry on 1,000 sessions of 20 steps while one of them is killed every five seconds and
PostgreSQL is restarted twice, once as an operator does it and once as in a crash; there the table says how soon they
went on with what was due, and with what a dead worker had left, whose lease of three seconds has to run out first. Four
workers are replaced one after the other by workers with a new version of their agent, in the middle of 200 sessions.
Every test run does the same on a smaller scale. Kills at named points and the ledger are in `steptrail.testing`, for
agents of your own too ([how](guides/testing-your-agent.md#a-crash)).

What counts as broken: an event that a reader missed, saw twice or saw before an earlier one of its session; one that
somebody was told is stored and that is not there once; a gap or a digest that does not verify; an effect that began
while another process was inside one, or before its attempt was refused; a message that is lost or there twice; an
execution that nobody ended; a segment that was owned twice, a call without a start in the log, an approval that was
answered twice or not waited for, anything started after a stop or a pause; and, for sessions killed at random, whatever
the columns above count.

"""


class Cut(NamedTuple):
    """What the power was cut in, and the states that it may leave: how many, and in how many what was wrong."""

    run: str
    durability: str
    states: int
    refused: int
    damaged: int
    lost: int

    @property
    def is_broken(self) -> bool:
        """Whether a promise was."""
        return bool(not self.states or self.refused or self.damaged or (self.lost and self.durability == "full"))


class Soaked(NamedTuple):
    """One long run on one store: what was run, how much of it, how many processes were killed, what was broken."""

    store: str
    run: str
    size: str
    kills: int
    broken: int


def page(lines: Sequence[Row], soaked: Sequence[Soaked], cuts: Sequence[Cut] = ()) -> str:
    """Return the whole page about these rows."""
    cut, soak = f"{CUT}{_cut_table(cuts)}\n", f"{SOAK}{_soak_table(soaked)}\n"
    matrices = "\n".join(f"{_title(of)}\n\n{table(_of(of, lines))}" for of in SUBJECTS)
    return f"{HEAD}\n{''.join(_summary(lines))}\n{MEANING}{cut}{soak}{matrices}"


def _title(of: str) -> str:
    return f"## The matrix of {of}"


def _of(of: str, lines: Sequence[Row]) -> list[Row]:
    known = {str(variant) for variant in SUBJECTS[of]}
    return [line for line in lines if line.effect_class in known]


def rewrite(text: str, *, lines: Sequence[Row] = (), soaked: Sequence[Soaked] = (), cuts: Sequence[Cut] = ()) -> str:
    """Return the page with these rows in the place of those of the same stores; a page that is none has no rows."""
    new_lines = {(line.store, line.effect_class) for line in lines}
    new_soaked = {each.store for each in soaked}
    old_lines = [line for line in _readable(read_rows, text) if (line.store, line.effect_class) not in new_lines]
    old_soaked = [each for each in _readable(read_soak, text) if each.store not in new_soaked]
    return page(
        sorted([*old_lines, *lines], key=lambda line: STORES.index(line.store)),
        sorted([*old_soaked, *soaked], key=lambda each: STORES.index(each.store)),
        cuts or _readable(read_cuts, text),
    )


def _readable(read: Callable[[str], list[T]], text: str) -> list[T]:
    try:
        return read(text)
    except (ValueError, TypeError):
        return []


def _cut_table(cuts: Sequence[Cut]) -> str:
    head = ("the power is cut while", "durability", "states", "refused", "damaged", "told and lost")
    texts = [head, ("---",) * 2 + ("---:",) * 4, *cuts]
    return "".join(f"| {' | '.join(map(str, text))} |\n" for text in texts)


def _soak_table(soaked: Sequence[Soaked]) -> str:
    texts = [("store", "run", "size", "processes killed", "promises broken"), ("---",) * 3 + ("---:",) * 2]
    return "".join(f"| {' | '.join(map(str, text))} |\n" for text in (*texts, *soaked))


def _summary(lines: Sequence[Row]) -> Iterable[str]:
    head = ("what is killed", *COLUMNS[3:])
    yield f"| {' | '.join(head)} |\n| --- |{' ---: |' * len(COLUMNS[3:])}\n"
    for of in SUBJECTS:
        for store in dict.fromkeys(line.store for line in _of(of, lines)):
            of_store = [line for line in _of(of, lines) if line.store == store]
            sums = [sum(getattr(line, field) or 0 for line in of_store) for field in _COUNTS]
            yield f"| {of}, {store} | {' | '.join(map(str, sums))} |\n"


def read_rows(text: str) -> list[Row]:
    """Read the rows of the matrix back from a page."""
    matrices = [text.partition(f"{_title(of)}\n\n{table([])}")[2] for of in SUBJECTS]
    found: list[Row] = []
    for line in [line for matrix in matrices for line in takewhile(bool, matrix.splitlines())]:
        point, store, effect_class, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        kills, lost, tools, keyed, unsafe, whole, same = (int(number) if number else None for number in numbers)
        found.append(
            Row(point, store, effect_class, kills or 0, lost or 0, tools or 0, keyed, unsafe, whole or 0, same or 0)
        )
    return found


def read_soak(text: str) -> list[Soaked]:
    """Read the rows of the long runs back from a page."""
    _, _, rows = text.partition(_soak_table([]))
    found: list[Soaked] = []
    for line in takewhile(bool, rows.splitlines()):
        store, run, size, kills, broken = (cell.strip() for cell in line.strip("|").split("|"))
        found.append(Soaked(store, run, size, int(kills), int(broken)))
    return found


def read_cuts(text: str) -> list[Cut]:
    """Read the rows about a power cut back from a page."""
    _, _, rows = text.partition(_cut_table([]))
    found: list[Cut] = []
    for line in takewhile(bool, rows.splitlines()):
        run, durability, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        states, refused, damaged, lost = map(int, numbers)
        found.append(Cut(run, durability, states, refused, damaged, lost))
    return found


def complaints(text: str) -> Iterable[str]:
    """Say what is wrong with a page: its form, its rows, or what they show."""
    lines, soaked, cuts = _readable(read_rows, text), _readable(read_soak, text), _readable(read_cuts, text)
    if not lines or page(lines, soaked, cuts) != text:
        yield "it is not what the scripts write"
    for of, variants in SUBJECTS.items():
        expected = [(f"`{point}`", str(variant)) for variant in variants for point in variant.points]
        for store in dict.fromkeys(line.store for line in lines):
            found = [(line.point, line.effect_class) for line in _of(of, lines) if line.store == store]
            if sorted(found) != sorted(expected):
                yield f"its rows of {of} for {store} are not the fault points and effect classes of the code"
    for line in lines:
        whole = line.kills > 0 and line.log_whole == line.same_outcome == line.kills
        if not whole or any(getattr(line, field) for field in _HARM):
            yield f"a promise is broken: {line}"
    yield from (f"a promise is broken: {each}" for each in soaked if each.broken)
    yield from (f"a promise is broken: {each}" for each in cuts if each.is_broken)
