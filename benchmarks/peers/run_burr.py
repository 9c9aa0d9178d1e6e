# pyright: basic, reportMissingImports=false
"""Burr: the model call and the tool as actions, with its SQLite persister."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from burr.core import ApplicationBuilder, State, action, default, when
from burr.core.persistence import SQLitePersister

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import ANSWER, QUESTION, arguments, reply_text, tool_result


def measure(task: Task) -> Figures:
    """Run the application in each session once; sessions at once have a thread and a connection each."""
    applications = [_application(task, number) for number in range(task.sessions)]
    with watched() as figures, ThreadPoolExecutor(task.sessions) as threads:
        states = [_run(applications[0])] if task.sessions == 1 else list(threads.map(_run, applications))
    for state in states:
        if state["messages"][-1]["text"] != ANSWER or len(state["messages"]) != 2 * task.steps + 2:
            raise RuntimeError(state["messages"][-1])
    figures.bytes = file_bytes(task.folder)
    return figures


def _run(application: Any) -> Any:
    return application.run(halt_after=["end"])[2]


def _application(task: Task, number: int) -> Any:

    @action(reads=["messages"], writes=["messages", "finished"])
    def model(state: State) -> State:
        step = sum(message["role"] == "assistant" for message in state["messages"]) + 1
        finished = step > task.steps
        text, call = (ANSWER, None) if finished else (reply_text(step), arguments(step))
        return state.append(messages={"role": "assistant", "text": text, "call": call}).update(finished=finished)

    @action(reads=["messages"], writes=["messages"])
    def lookup(state: State) -> State:
        return state.append(messages={"role": "tool", "text": tool_result(state["messages"][-1]["call"]["step"])})

    @action(reads=["messages"], writes=[])
    def end(state: State) -> State:
        return state

    persister = SQLitePersister.from_values(
        str(task.folder / "burr.db"), connect_kwargs={"check_same_thread": False, "timeout": 60}
    )
    persister.initialize()
    return (
        ApplicationBuilder()
        .with_actions(model, lookup, end)
        .with_transitions(("model", "end", when(finished=True)), ("model", "lookup", default), ("lookup", "model"))
        .with_identifiers(app_id=f"benchmark-{number:06}")
        .with_state_persister(persister)
        .with_entrypoint("model")
        .with_state(messages=[{"role": "user", "text": QUESTION}], finished=False)
        .build()
    )


if __name__ == "__main__":
    script(measure)
