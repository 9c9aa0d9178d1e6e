# pyright: basic, reportMissingImports=false
"""DBOS: a queue of workflows, each the loop of an agent with the model call and the tool as its steps."""

import sys
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.fleet.child import CONCURRENCY, Job, began, script
from benchmarks.texts import ANSWER, QUESTION, arguments, reply_text, tool_result, warm

__all__ = ["fill", "work"]

_QUEUE = "benchmark"
_POLL_SECONDS = 0.1


def fill(job: Job) -> None:
    """Enqueue all workflows. This process takes none up: it listens to no queue."""
    loop = _configured(job)
    DBOS.listen_queues([])
    DBOS.launch()
    queue = DBOS.register_queue(_QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=_POLL_SECONDS)
    for number in range(job.sessions):
        with SetWorkflowID(f"benchmark-{number:06}"):
            queue.enqueue(loop, QUESTION)
    DBOS.destroy()


def work(job: Job) -> None:
    """Be an executor of the queue."""
    warm(job.steps)
    _configured(job)
    with began():
        DBOS.launch()
        sys.stdin.readline()
        DBOS.destroy()


def _configured(job: Job) -> Any:
    config: DBOSConfig = {
        "name": "benchmark",
        "system_database_url": job.url,
        "executor_id": f"worker-{job.worker}",
        "application_version": "benchmark",
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)

    @DBOS.step()
    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        step = sum(message["role"] == "assistant" for message in messages) + 1
        if step > job.steps:
            return {"role": "assistant", "text": ANSWER, "call": None}
        return {"role": "assistant", "text": reply_text(step), "call": arguments(step)}

    @DBOS.step()
    def lookup(step: int, table: str, query: str) -> str:
        return tool_result(step)

    @DBOS.workflow()
    def loop(question: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "text": question}]
        while (reply := model(messages))["call"] is not None:
            messages += (reply, {"role": "tool", "text": lookup(**reply["call"])})
        return reply["text"]

    return loop


if __name__ == "__main__":
    script(fill, work)
