"""What each part of the layout of the rows costs: bytes a step, and processor time a commit.

`python -m benchmarks.layouts [STEPS] [PASSES]` runs an agent, takes the rows that it left, and writes them again,
commit by commit and durably, in one layout after another; the layouts take turns within each pass. Each
makes the digests too, so that what it costs to hash contents apart is seen as well.
"""

import asyncio
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.meter import stopwatch
from benchmarks.sqlite_place import SqliteSite
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail
from steptrail.domain.kernel.record import CommitHead
from steptrail.infrastructure.store.core.contents import joined
from steptrail.infrastructure.store.core.digest import commit_digest


class Event(NamedTuple):
    """An event of a run, whole and in its parts."""

    version: int
    at: int
    type: str
    whole: bytes
    state: bytes
    content: bytes | None

    def stamped(self, part: bytes) -> bytes:
        """Return a part with the instant in front, as the layouts without a column for it have it."""
        return b'{"@":%16d' % self.at + (b"}" if part == b"{}" else b"," + part[1:])


class Commit(NamedTuple):
    """A commit of a run."""

    stream: str
    head: CommitHead
    events: tuple[Event, ...]


Statement = tuple[str, Sequence[object]]


class Layout(NamedTuple):
    """Tables, and what writes a commit into them after the digest before it; returns the digest too."""

    name: str
    tables: tuple[str, ...]
    write: Callable[[Commit, bytes], tuple[list[Statement], bytes]]
    page: int = 8192


_HEAD = "commit_id TEXT, actor TEXT, causation TEXT, segment INTEGER, key_id TEXT"
_COMMITS = (
    "CREATE TABLE commits (stream INTEGER, version INTEGER, position INTEGER, commit_id TEXT, actor TEXT, "
    "causation TEXT, segment INTEGER, key_id TEXT, digest BLOB, PRIMARY KEY (stream, version)) WITHOUT ROWID"
)
_SIZED = _COMMITS.replace("digest BLOB", "digest BLOB, size INTEGER")
_TIMED = (
    "CREATE TABLE events (position INTEGER PRIMARY KEY, stream INTEGER, version INTEGER, type INTEGER, at INTEGER, "
    "state BLOB, content BLOB)"
)
_NUMBERED = "position INTEGER PRIMARY KEY, stream INTEGER, version INTEGER, type INTEGER, state BLOB"
_types: dict[str, int] = {}


def _number(name: str) -> int:
    return _types.setdefault(name, len(_types) + 1)


def _sealed(commit: Commit, previous: bytes, apart: bool = False) -> bytes:
    rows = [
        (e.version, e.type, e.at, e.state, e.content) if apart else (e.version, e.type, e.at, e.whole, None)
        for e in commit.events
    ]
    return commit_digest(previous, commit.stream, commit.head, rows)


def _one_table(commit: Commit, previous: bytes, *, numbers: bool) -> tuple[list[Statement], bytes]:
    digest, head = _sealed(commit, previous), commit.head
    rows: list[object] = []
    for i, event in enumerate(commit.events):
        names = [1, event.version, _number(event.type)] if numbers else [commit.stream, event.version, event.type]
        rows += [*names, event.stamped(event.whole)]
        if not i:
            rows += [head.commit_id, head.actor, head.causation, head.segment, head.key_id, previous, digest]
    plain = ",(?,?,?,?,NULL,NULL,NULL,NULL,NULL,NULL,NULL)" * (len(commit.events) - 1)
    columns = "stream, version, type, state, commit_id, actor, causation, segment, key_id, previous, digest"
    return [(f"INSERT INTO events ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?){plain}", rows)], digest


def _two_tables(
    commit: Commit, previous: bytes, *, apart: bool = True, sized: bool = False, timed: bool = False
) -> tuple[list[Statement], bytes]:
    head, position = commit.head, commit.events[0].version
    rows: list[list[object]] = []
    for event in commit.events:
        parts = (event.state, event.content) if timed else (event.stamped(event.state), event.content)
        of_event = [event.at, *parts] if timed else [*parts] if apart else [event.stamped(event.whole)]
        rows.append([event.version, 1, event.version, _number(event.type), *of_event])
    digest = _sealed(commit, previous, apart)
    sealed = [1, position, position, head.commit_id, head.actor, head.causation, head.segment, head.key_id, digest]
    sealed += [len(rows)] if sized else []
    values = ",".join([f"({','.join('?' * len(rows[0]))})"] * len(rows))
    return [
        ("BEGIN IMMEDIATE", ()),
        (f"INSERT INTO commits VALUES ({','.join('?' * len(sealed))})", sealed),
        (f"INSERT INTO events VALUES {values}", [value for row in rows for value in row]),
        ("COMMIT", ()),
    ], digest


def _plain(key: str, stream: str, kind: str) -> str:
    return (
        f"CREATE TABLE events (position INTEGER PRIMARY KEY {key}, stream {stream}, version INTEGER, type {kind}, "
        f"state BLOB, {_HEAD}, previous BLOB, digest BLOB, UNIQUE (stream, version))"
    )


_INDEX = "CREATE INDEX streams ON events (stream) WHERE version = 1"
LAYOUTS = (
    Layout(
        "before: names, a counter, one table",
        (_plain("AUTOINCREMENT", "TEXT", "TEXT"), _INDEX),
        partial(_one_table, numbers=False),
    ),
    Layout("without the counter", (_plain("", "TEXT", "TEXT"), _INDEX), partial(_one_table, numbers=False)),
    Layout("and with numbers", (_plain("", "INTEGER", "INTEGER"), _INDEX), partial(_one_table, numbers=True)),
    Layout(
        "and with a table of commits",
        (_COMMITS, f"CREATE TABLE events ({_NUMBERED}, UNIQUE (stream, version))"),
        partial(_two_tables, apart=False),
    ),
    Layout(
        "and with contents apart",
        (_COMMITS, f"CREATE TABLE events ({_NUMBERED}, content BLOB, UNIQUE (stream, version))"),
        _two_tables,
    ),
    Layout(
        "and without a key over events",
        (_SIZED, f"CREATE TABLE events ({_NUMBERED}, content BLOB)"),
        partial(_two_tables, sized=True),
    ),
    Layout("and with a column for instants", (_SIZED, _TIMED), partial(_two_tables, sized=True, timed=True)),
    Layout("and with pages of 4 KB: now", (_SIZED, _TIMED), partial(_two_tables, sized=True, timed=True), 4096),
)


def _commits(steps: int, folder: Path) -> list[Commit]:
    async def ran(url: str) -> None:
        async with Steptrail.open(url) as trail:
            await run(trail, agent(steps), session_name(0))

    place = SqliteSite(folder).fresh()
    asyncio.run(ran(place.url))
    rows = place.rows()
    assert rows.columns[:6] == ("stream", "version", "type", "at", "state", "content")
    return [_commit(commit) for commit in rows.commits]


def _commit(rows: Iterable[tuple[object, ...]]) -> Commit:
    held: list[tuple[str, int, str, int, bytes, bytes | None, str, str, str | None, int]]
    held = [row[:10] for row in rows]  # type: ignore[misc]
    stream, _, _, _, _, _, commit_id, actor, causation, segment = held[0]
    head = CommitHead(commit_id=commit_id, actor=actor, causation=causation, segment=segment)
    return Commit(
        stream,
        head,
        tuple(
            Event(version, at, name, joined(name, state, content), state, content)
            for _, version, name, at, state, content, *_ in held
        ),
    )


def _written(layout: Layout, commits: Sequence[Commit], folder: Path) -> tuple[int, float]:
    """Return the bytes of the file, and the processor time in seconds."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "layout.db"
    with closing(sqlite3.connect(path, isolation_level=None, cached_statements=256)) as connection:
        for setting in (f"page_size = {layout.page}", "journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {setting}").fetchall()
        for table in layout.tables:
            connection.execute(table)
        previous = b""
        with stopwatch() as watch:
            for commit in commits:
                statements, previous = layout.write(commit, previous)
                for statement, values in statements:
                    connection.execute(statement, values)
    size = path.stat().st_size
    shutil.rmtree(path.parent)
    return size, watch.cost.cpu


def main(steps: int = 1_000, passes: int = 5) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commits = _commits(steps, folder)
        said = sum(len(event.whole) for commit in commits for event in commit.events) / steps
        found: dict[str, list[tuple[int, float]]] = {layout.name: [] for layout in LAYOUTS}
        for _ in range(passes):
            for layout in LAYOUTS:
                found[layout.name].append(_written(layout, commits, folder))
    print(f"{steps} steps, {len(commits)} commits, states of {said:.0f} bytes a step, {passes} passes")
    first = [cpu for _, cpu in found[LAYOUTS[0].name]]
    for name, costs in found.items():
        cpu = median(cpu for _, cpu in costs) / len(commits) * 1e6
        ratio = median(cpu / base for (_, cpu), base in zip(costs, first, strict=True))
        print(f"{name:36} {costs[0][0] / steps:6.0f} bytes a step, {cpu:5.0f} us a commit, {ratio:.2f} of before")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
