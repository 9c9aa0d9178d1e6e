# pyright: basic, reportMissingImports=false
"""DBOS: a queue of workflows, each the loop of an agent with the model call and the tool as its steps."""

import sys
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.fleet.child import CONCURRENCY, Job, began, script
from benchmarks.peers.run_dbos import loop_of
from benchmarks.texts import QUESTION, warm

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
    return loop_of(job.steps)


if __name__ == "__main__":
    script(fill, work)
