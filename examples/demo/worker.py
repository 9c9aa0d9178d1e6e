"""The process that does the work and gets killed: `worker.py PART FOLDER MODEL`.

There is no code here for going on after a crash. The same command is simply run again: a question that was answered
returns its stored answer, one that was not is resumed, and what was never asked is asked.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from folder import Folder
from model import ModelKind
from orders import order_agent
from progress import describe
from reader import FILES, endless_reader, question, reader
from steptrail import Steptrail
from steptrail.events import AgentEvent, Recorded

__all__ = ["answer_questions", "fulfil_order", "read_without_end"]


def show(records: Sequence[Recorded[AgentEvent]]) -> None:
    """Print what a commit recorded, once it is durable."""
    for record in records:
        line = describe(record.event)
        if line is not None:
            print(f"#{record.version:<4}{line}", flush=True)


async def answer_questions(trail: Steptrail, folder: Folder, kind: ModelKind) -> None:
    """Ask one question about each file, all in one session; the key says which question it is."""
    agent = reader(kind, folder.ledger)
    for number, file in enumerate(FILES, 1):
        await trail.run(agent, question(file), session="files", key=f"question-{number}", on_commit=show)
    await agent.model.close()


async def fulfil_order(trail: Steptrail, folder: Folder, kind: ModelKind) -> None:
    """Run the three tools of the order."""
    del kind
    agent = order_agent(folder.ledger, folder.bank)
    await trail.run(agent, "One tea for Ana, please.", session="order", on_commit=show)


async def read_without_end(trail: Steptrail, folder: Folder, kind: ModelKind) -> None:
    """Run the reader that never answers."""
    agent = endless_reader(kind, folder.ledger)
    await trail.run(agent, "How many lines are in each file?", session="endless", on_commit=show)
    await agent.model.close()


PARTS = {"questions": answer_questions, "order": fulfil_order, "endless": read_without_end}


async def main(part: str, folder: Folder, kind: ModelKind) -> None:
    """Do one part of the demo."""
    async with Steptrail.open(folder.store) as trail:
        await PARTS[part](trail, folder, kind)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Folder(Path(sys.argv[2])), ModelKind(sys.argv[3])))
