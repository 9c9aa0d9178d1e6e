# pyright: basic, reportMissingImports=false
"""DBOS: the loop as a workflow, the model call and the tool as steps of it, on its SQLite system database."""

import sqlite3
from contextlib import closing
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import ANSWER, QUESTION, arguments, reply_text, tool_result


def loop_of(steps: int) -> Any:
    """Return the loop of an agent as a workflow, with the model call and the tool as its steps."""

    @DBOS.step()
    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        step = sum(message["role"] == "assistant" for message in messages) + 1
        if step > steps:
            return {"role": "assistant", "text": ANSWER, "call": None}
        return {"role": "assistant", "text": reply_text(step), "call": arguments(step)}

    @DBOS.step()
    def lookup(step: int, table: str, query: str) -> str:
        return tool_result(step)

    @DBOS.workflow()
    def work(question: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "text": question}]
        while (reply := model(messages))["call"] is not None:
            messages += (reply, {"role": "tool", "text": lookup(**reply["call"])})
        return reply["text"]

    return work


def measure(task: Task) -> Figures:
    """Run the workflow once, or as many of them at once as there are sessions."""
    configure(task)
    work = loop_of(task.steps)
    DBOS.launch()
    try:
        with watched() as figures:
            answers = [_alone(work)] if task.sessions == 1 else _at_once(work, task.sessions)
        if answers != [ANSWER] * task.sessions:
            raise RuntimeError(answers)
    finally:
        DBOS.destroy()
    figures.bytes = file_bytes(task.folder)
    return figures


def configure(task: Task) -> None:
    """Point DBOS at a file in the folder; `wal` sets the file to a write-ahead log first."""
    database = task.folder / "dbos.db"
    if task.variant == "wal":
        # The mode stays with the file, once there is something in it.
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE made_by_the_benchmark (empty)")
    config: DBOSConfig = {
        "name": "benchmark",
        "system_database_url": f"sqlite:///{database}",
        "log_level": "ERROR",
        "run_admin_server": False,
        "max_executor_threads": max(64, task.sessions),
    }
    DBOS(config=config)


def _alone(work: Any) -> str:
    with SetWorkflowID("benchmark"):
        return work(QUESTION)


def _at_once(work: Any, sessions: int) -> list[str]:
    handles = []
    for number in range(sessions):
        with SetWorkflowID(f"benchmark-{number:06}"):
            handles.append(DBOS.start_workflow(work, QUESTION))
    return [handle.get_result() for handle in handles]


if __name__ == "__main__":
    script(measure)
