"""The other end of a measurement that needs a process of its own.

`python -m benchmarks.child MODE URL STEPS`: `run` does the work and ends, `kill` dies the hard way in its last model
call, `resume` takes up what was killed and prints, when it makes its first model call, the number of that call and what
it cost since everything was imported.
"""

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module

from benchmarks.meter import now
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

KILLED = 9
"""The exit status of `kill`."""


def main(mode: str, url: str, steps: int) -> None:
    """Do one of the three."""
    # What opening a store of this kind would import; a driver is imported by the first question to the database.
    opened_by, driver = ("sqlite.opening", "sqlite3") if url.startswith("sqlite") else ("postgres.store", "psycopg")
    for module in (f"steptrail.infrastructure.store.{opened_by}", driver):
        import_module(module)
    # The collector looks through all that the imports have left at some time, which takes 24 ms here, and a few objects
    # more or fewer decide whether that is before `imported`. Now it is: the process pays for it, the resume does not.
    gc.collect()
    imported = now()

    def at_call(call: int) -> None:
        if mode == "kill" and call == steps:
            os._exit(KILLED)
        if mode == "resume":
            cost = now() - imported
            print(json.dumps({"call": call, "wall": cost.wall, "cpu": cost.cpu}), flush=True)
            os._exit(0)

    asyncio.run(_work(url, steps, mode, at_call))


async def _work(url: str, steps: int, mode: str, at_call: Callable[[int], None]) -> None:
    who = agent(steps, at_call=at_call, done=steps if mode == "resume" else 0)
    async with Steptrail.open(url) as trail:
        if mode == "resume":
            # On a server the lease of a killed process lives on for a while, and waiting for its end is not our time.
            await trail.session(session_name(0)).resume(who, take_over=True)
        else:
            await run(trail, who, session_name(0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
