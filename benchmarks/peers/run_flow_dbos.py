# pyright: basic, reportMissingImports=false
"""DBOS: the three nodes as steps of a workflow, on its SQLite system database."""

from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.peers.run_dbos import configure
from benchmarks.texts import QUESTION, arguments, reply_text, tool_result


def measure(task: Task) -> Figures:
    """Run the workflow; what runs at once does so in threads of DBOS."""
    configure(task)

    @DBOS.step()
    def prepare(number: int) -> dict[str, Any]:
        return arguments(number)

    @DBOS.step()
    def lookup(step: int, table: str, query: str) -> str:
        return tool_result(step)

    @DBOS.step()
    def conclude(number: int, found: str) -> str:
        return reply_text(number)

    @DBOS.workflow()
    def work(question: str, number: int) -> str:
        return conclude(number, lookup(**prepare(number)))

    DBOS.launch()
    try:
        with watched() as figures:
            said: list[str] = []
            for number in range(1, task.steps + 1):
                said += _once(work, number) if task.sessions == 1 else _at_once(work, number, task.sessions)
        if said != [reply_text(number) for number in range(1, task.steps + 1) for _ in range(task.sessions)]:
            raise RuntimeError(said)
    finally:
        DBOS.destroy()
    figures.bytes = file_bytes(task.folder)
    return figures


def _once(work: Any, number: int) -> list[str]:
    with SetWorkflowID(f"run-{number:06}"):
        return [work(QUESTION, number)]


def _at_once(work: Any, number: int, many: int) -> list[str]:
    handles = []
    for lane in range(many):
        with SetWorkflowID(f"run-{lane:04}-{number:06}"):
            handles.append(DBOS.start_workflow(work, QUESTION, number))
    return [handle.get_result() for handle in handles]


if __name__ == "__main__":
    script(measure)
