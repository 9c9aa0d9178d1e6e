"""What the scripts of workers share: their command line, when they begin and end, and what they cost.

Standard library only: each script runs in the environment of its library.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

CONCURRENCY = 8
"""So many sessions a worker carries on at once."""


class Job(argparse.Namespace):
    """What a script is asked for: to `fill` the database with sessions, or to be one of its workers.

    A worker says `ready`, begins when a line comes in, and ends with the next one.
    """

    variant: str
    what: str
    url: str
    sessions: int
    steps: int
    worker: int


def script(fill: Callable[[Job], None], work: Callable[[Job], None]) -> None:
    """Do what the command line asks for. A worker prints its processor time in seconds at its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("variant")
    parser.add_argument("what", choices=("fill", "work"))
    parser.add_argument("url")
    parser.add_argument("sessions", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("worker", type=int)
    job = parser.parse_args(namespace=Job())
    if job.what == "fill":
        fill(job)
    else:
        work(job)


@contextmanager
def began() -> Generator[None, None, None]:
    """Wait for the line that begins the work, and say at the end of the block what it cost."""
    print("ready", flush=True)
    sys.stdin.readline()
    before = time.process_time()
    yield
    print(json.dumps({"cpu": time.process_time() - before}), flush=True)
