"""Let the crash harness loose for a long time, say what it did to the store, and write that into docs/reliability.md.

python -m scripts.soak [--store sqlite,postgres] [--events 100000] [--sessions 240] [--seed N]

A run with fewer events than that only prints what it found.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.reliability_page import PAGE, Soaked, rewrite
from steptrail.testing.crew import Crew
from steptrail.testing.soak import contest, random_kills, tide
from steptrail.testing.store_urls import store_to_use_up

__all__ = ["main"]

_KILLS_OF_A_SESSION = 6
_EVENTS_BETWEEN_KILLS = 2500
_FULL_SIZE = 100_000


def main(arguments: Sequence[str]) -> int:
    """Run everything on every store; 0 when every promise was kept. What was found wrong stays where it is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite", help="stores to run on, separated by commas: sqlite, postgres")
    parser.add_argument("--events", type=int, default=_FULL_SIZE, help="how many events writers append")
    parser.add_argument("--sessions", type=int, default=240, help="how many sessions are killed at random moments")
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
    if given.events >= _FULL_SIZE:
        PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), soaked=soaked), encoding="utf-8")
    return 1 if any(each.broken for each in soaked) else 0


def _soak(store: str, folder: Path, given: argparse.Namespace) -> list[Soaked]:
    with store_to_use_up(store, folder) as url, Crew() as crew:
        sea, drowned = tide(
            crew, url, folder, events=given.events, kills=given.events // _EVENTS_BETWEEN_KILLS, seed=given.seed
        )
        print(f"{store}: tide: {sea}, {drowned} processes killed", flush=True)
        fight = contest(crew, url, folder, inputs=12, messages=48)
        print(f"{store}: contest: {fight}", flush=True)
        survivors = random_kills(crew, url, folder, sessions=given.sessions, kills=_KILLS_OF_A_SESSION, seed=given.seed)
    wrong = [survivor for survivor in survivors if not survivor.finding.is_good]
    kills = sum(survivor.kills for survivor in survivors)
    print(f"{store}: random kills: {kills} in {len(survivors)} sessions, {len(wrong)} of them wrong", flush=True)
    for survivor in wrong:
        print(f"{store}: {survivor}", file=sys.stderr)
    refused = fight.refusals.total()
    return [
        Soaked(store, f"8 writers, {sea.readers} readers", f"{sea.events:,} events", drowned, sea.broken),
        Soaked(store, "8 on one session, a ninth", f"{fight.segments} runs, {refused} refusals", 0, fight.broken),
        Soaked(store, "random moments", f"{len(survivors)} sessions", kills, len(wrong)),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
