"""Let the crash harness loose for a long time, say what it did to the store, and write that into docs/reliability.md.

python -m scripts.soak [--store sqlite,postgres] [--minutes 20] [--events 100000] [--sessions 240] [--questions 2000]
    [--restarted 1000] [--runs tide,contest,kills,take-overs,answers,fleet,woken,restarts,rolling] [--seed N]

A run with fewer events or minutes than that, or with some of the runs, only prints what it found.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.reliability_page import PAGE, Soaked, rewrite
from tests.harness.answering import answer_at_once
from tests.harness.fleet import Fleet, Harm, fleet
from tests.harness.fleet_yard import Load
from tests.harness.log_audit import LogAudit
from tests.harness.postgres_server import PostgresServer
from tests.harness.rolling import roll
from tests.harness.soak import contest, random_kills, take_overs, tide
from tests.harness.store_urls import store_to_use_up
from tests.harness.worker_pool import WorkerPool

_KILLS_OF_A_SESSION = 6
_EVENTS_BETWEEN_KILLS = 2500
_SECONDS_BETWEEN_KILLS = 3.0
_FULL_SIZE = 100_000
_ONLY_ON_A_SERVER = frozenset({"woken", "restarts"})
_FULL_TIME = 20.0


def main(arguments: Sequence[str]) -> int:
    """Run everything on every store; 0 when every promise was kept. What was found wrong stays where it is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite", help="stores to run on, separated by commas: sqlite, postgres")
    parser.add_argument("--events", type=int, default=_FULL_SIZE, help="how many events writers append")
    parser.add_argument("--sessions", type=int, default=240, help="how many sessions are killed at random moments")
    parser.add_argument("--runs", default=",".join(_RUNS), help="what to run: " + ", ".join(_RUNS))
    parser.add_argument("--minutes", type=float, default=_FULL_TIME, help="how long sessions are taken over")
    parser.add_argument("--questions", type=int, default=2000, help="how many questions four people answer at once")
    parser.add_argument("--restarted", type=int, default=1000, help="how many sessions run while the server restarts")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}")
    soaked: list[Soaked] = []
    for store in given.store.split(","):
        scratch = Path(tempfile.mkdtemp(prefix="steptrail-soak-"))
        found = _soak(store, scratch, given)
        soaked += found
        if any(each.broken for each in found):
            print(f"{store}: a promise is broken; logs and ledgers are in {scratch}", file=sys.stderr)
        else:
            shutil.rmtree(scratch)
    if given.events >= _FULL_SIZE and given.minutes >= _FULL_TIME and set(given.runs.split(",")) == set(_RUNS):
        PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), soaked=soaked), encoding="utf-8")
    return 1 if any(each.broken for each in soaked) else 0


def _soak(store: str, folder: Path, given: argparse.Namespace) -> list[Soaked]:
    with store_to_use_up(store, folder) as url, WorkerPool() as pool:
        runs = [name for name in given.runs.split(",") if store == "postgres" or name not in _ONLY_ON_A_SERVER]
        return [_RUNS[name](pool, store, url, folder, given) for name in runs]


def _tide(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    sea, drowned = tide(
        pool, url, folder, events=given.events, kills=given.events // _EVENTS_BETWEEN_KILLS, seed=given.seed
    )
    print(f"{store}: tide: {sea}, {drowned} processes killed", flush=True)
    return Soaked(store, f"8 writers, {sea.readers} readers", f"{sea.events:,} events", drowned, sea.broken)


def _contest(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    del given
    fight = contest(pool, url, folder, inputs=12, messages=48)
    print(f"{store}: contest: {fight}", flush=True)
    size = f"{fight.segments} runs, {fight.refusals.total()} refusals"
    return Soaked(store, "8 on one session, a ninth", size, 0, fight.broken)


def _kills(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    survivors = random_kills(pool, url, folder, sessions=given.sessions, kills=_KILLS_OF_A_SESSION, seed=given.seed)
    wrong = [survivor for survivor in survivors if not survivor.finding.is_good]
    kills = sum(survivor.kills for survivor in survivors)
    print(f"{store}: random kills: {kills} in {len(survivors)} sessions, {len(wrong)} of them wrong", flush=True)
    for survivor in wrong:
        print(f"{store}: {survivor}", file=sys.stderr)
    return Soaked(store, "random moments", f"{len(survivors)} sessions", kills, len(wrong))


def _take_overs(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    found = LogAudit()
    sessions = segments = kills = broken = 0
    for struggle in take_overs(pool, url, folder, minutes=given.minutes, seed=given.seed):
        found += struggle.found
        sessions, segments, kills = sessions + 1, segments + struggle.segments, kills + struggle.kills
        broken += struggle.broken
        if struggle.broken:
            print(f"{store}: session {sessions}: {struggle}", file=sys.stderr, flush=True)
    print(f"{store}: take-overs: {sessions} sessions, {segments} segments, {kills} kills: {found}", flush=True)
    return Soaked(store, "6 on one session, taken over", f"{sessions} sessions, {segments} segments", kills, broken)


def _answers(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    answered = answer_at_once(pool, url, folder, questions=given.questions)
    print(f"{store}: answers: {answered}", flush=True)
    return Soaked(store, "4 answer at once", f"{answered.questions:,} questions", 0, answered.broken)


def _fleet(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    load, harm = Load(500, seconds=1.0), Harm(_SECONDS_BETWEEN_KILLS)
    found = fleet(pool, url, folder, load, harm, workers=8, seed=given.seed)
    print(f"{store}: fleet: {found}", flush=True)
    return Soaked(store, "8 workers on 500 sessions", _size_of(found), found.kills, found.broken)


def _woken(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    load, harm = Load(500, seconds=1.0), Harm(_SECONDS_BETWEEN_KILLS)
    found = fleet(pool, url, folder, load, harm, workers=4, seed=given.seed + 1, concurrency=16, is_woken=True)
    print(f"{store}: woken: {found}", flush=True)
    named = "4 workers that procrastinate wakes, on 500 sessions"
    return Soaked(store, named, _size_of(found), found.kills, found.broken)


def _size_of(found: Fleet) -> str:
    return f"{found.sessions:,} sessions, {found.segments:,} segments"


def _restarts(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    """Run on a server of its own, which is restarted: first as an operator does it, then as a crash does it."""
    del url
    load = Load(given.restarted, seconds=0.1, calls=19, every=0.25, is_durable=True)
    whole = load.sessions * load.every
    with PostgresServer(settings=()) as server:

        def restart(number: int) -> None:
            server.restart((signal.SIGINT, signal.SIGQUIT)[number])

        harm = Harm(5.0, restart, (whole / 3, whole * 2 / 3))
        place = server.url(server.create_database())
        found = fleet(pool, place, folder, load, harm, workers=4, seed=given.seed + 2, concurrency=16, is_woken=True)
    print(f"{store}: restarts: {found}", flush=True)
    named = f"4 workers on {load.sessions:,} sessions of 20 steps, the server restarted twice"
    return Soaked(store, named, f"{_size_of(found)}; {found.delays}", found.kills, found.broken)


def _rolling(pool: WorkerPool, store: str, url: str, folder: Path, given: argparse.Namespace) -> Soaked:
    del given
    found = roll(pool, url, folder, sessions=200, workers=4, seconds=0.5)
    print(f"{store}: rolling restart: {found}", flush=True)
    size = f"{found.sessions} sessions, {found.went_on} of them under the new version"
    return Soaked(store, "4 workers replaced by a new version", size, 0, found.broken)


_RUNS = {
    "tide": _tide,
    "contest": _contest,
    "kills": _kills,
    "take-overs": _take_overs,
    "answers": _answers,
    "fleet": _fleet,
    "woken": _woken,
    "restarts": _restarts,
    "rolling": _rolling,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
