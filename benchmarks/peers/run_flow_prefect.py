# pyright: basic, reportMissingImports=false
"""Prefect: the three nodes as tasks whose results are kept, with the server on loopback that it starts for itself.

The server is a process of its own, whose processor time and syncs count.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from benchmarks.meter import Cost
from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import QUESTION, arguments, reply_text, tool_result


def measure(task: Task) -> Figures:
    """Run the flow; what runs at once are tasks of a loop."""
    os.environ |= {
        "PREFECT_HOME": str(task.folder),
        "PREFECT_LOCAL_STORAGE_PATH": str(task.folder / "results"),
        "PREFECT_MEMO_STORE_PATH": str(task.folder / "memo_store.toml"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    # It reads its settings when it is imported.
    from prefect.server.api.server import SubprocessASGIServer

    server = SubprocessASGIServer()
    server.start(timeout=60)
    try:
        os.environ["PREFECT_API_URL"] = server.api_url
        figures = asyncio.run(_measured(task, server.server_process.pid))
    finally:
        server.stop()
    figures.bytes = file_bytes(task.folder)
    return figures


async def _measured(task: Task, server: int) -> Figures:
    work = _flow()

    async def chain() -> list[str]:
        return [await work(QUESTION, number) for number in range(1, task.steps + 1)]

    before = _processor(server)
    with watched() as figures:
        said = await asyncio.gather(*(chain() for _ in range(task.sessions)))
    figures.cost = Cost(figures.cost.wall, figures.cost.cpu + _processor(server) - before)
    if said != [[reply_text(number) for number in range(1, task.steps + 1)]] * task.sessions:
        raise RuntimeError(said)
    return figures


def _flow() -> Any:
    from prefect import flow, task

    @task
    async def prepare(number: int) -> dict[str, Any]:
        return arguments(number)

    @task
    async def lookup(wanted: dict[str, Any]) -> str:
        return tool_result(wanted["step"])

    @task
    async def conclude(number: int, found: str) -> str:
        return reply_text(number)

    @flow
    async def work(question: str, number: int) -> str:
        return await conclude(number, await lookup(await prepare(number)))

    return work


def _processor(process: int) -> float:
    # What comes after the name of the process: its name may have spaces and brackets in it.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    script(measure)
