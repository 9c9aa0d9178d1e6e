"""People who answer the same requests of workflows at the same moment, each in a process of its own: one is heard."""

import asyncio
import mmap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steptrail.domain.errors import CommandRejected
from steptrail.domain.flow.events import HumanAnswered
from steptrail.domain.flow.ids import node_asked_in
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger
from steptrail.workflow import Workflow
from tests.harness.answering import everybody_is_here, meeting_of
from tests.harness.store_urls import opened
from tests.harness.worker_pool import WorkerPool

_ASKED: Final = ("first", "second")
_HANGS_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class FlowsAnswered:
    """How many requests were open, and of how many one answer was accepted that is the one in the log.

    `completed` counts the runs that went on to their end with these answers.
    """

    requests: int
    accepted_once: int
    completed: int


def answer_flows_at_once(pool: WorkerPool, url: str, folder: Path, *, runs: int, people: int = 4) -> FlowsAnswered:
    """Have the two requests of each of `runs` runs answered by `people` processes at the same moment."""
    names = [f"asks-{number}" for number in range(runs)]
    pool.run(ask, url, names).answer()
    ledger, meeting = Ledger(folder / "answers.jsonl"), meeting_of(folder, people)
    workers = [pool.start(answer_all, url, names, ledger, meeting, number, people) for number in range(people)]
    for worker in workers:
        worker.end(_HANGS_SECONDS).answer()
    accepted = Counter((entry.what, entry.effect) for entry in ledger.entries())
    return asyncio.run(_judged(url, names, accepted))


def ask(url: str, names: Sequence[str]) -> None:
    """Run each workflow until it waits for its answers."""

    async def main() -> None:
        async with Steptrail(Environment(store=opened(url))) as trail:
            for name in names:
                await trail.run(_asking(), session=name)

    asyncio.run(main())


def answer_all(url: str, names: Sequence[str], ledger: Ledger, meeting: Path, number: int, people: int) -> None:
    """Answer the requests of each run when all others are about to, too. For a process of its own."""

    async def main() -> None:
        async with Steptrail(Environment(store=opened(url))) as trail:
            for turn, name in enumerate(names, 1):
                flow, by = trail.flow(name), f"person {number}"
                everybody_is_here(places, number, people, turn)
                for node in reversed(_ASKED) if number % 2 else _ASKED:
                    try:
                        await flow.answer(node, approved=number % 2 == 0, by=by)
                    except CommandRejected:
                        continue
                    ledger.write(by, f"{name} {node}")

    with meeting.open("r+b") as file, mmap.mmap(file.fileno(), 0) as places:
        asyncio.run(main())


async def _judged(url: str, names: Sequence[str], accepted: Counter[tuple[str, str]]) -> FlowsAnswered:
    heard: Counter[tuple[str, str]] = Counter()
    completed = 0
    async with Steptrail(Environment(store=opened(url))) as trail:
        for name in names:
            for record in await trail.flow(name).events():
                if isinstance(record.event, HumanAnswered):
                    heard[record.event.by, f"{name} {node_asked_in(record.event.request_id)}"] += 1
            completed += (await trail.flow(name).resume(_asking())).status == "completed"
    times = Counter(request for _, request in heard.elements())
    once = sum(accepted[of] == heard[of] == times[of[1]] == 1 for of in heard)
    return FlowsAnswered(len(names) * len(_ASKED), once if accepted == heard else 0, completed)


def _asking() -> BuiltWorkflow:
    written = Workflow("asks")
    for node in _ASKED:
        written.human(node, prompt="Go on?", output=node)
    return written.function("end", lambda seen: sorted(seen.vars)).edge(_ASKED, "end").build()
