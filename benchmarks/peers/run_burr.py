# pyright: basic, reportMissingImports=false
"""Burr: the model call and the tool as actions, with its SQLite persister."""

from burr.core import ApplicationBuilder, State, action, default, when
from burr.core.persistence import SQLitePersister

from benchmarks.meter import Cost, stopwatch
from benchmarks.peers.child import Task, file_bytes, script
from benchmarks.texts import ANSWER, QUESTION, arguments, reply_text, tool_result

__all__ = ["measure"]


def measure(task: Task) -> tuple[Cost, int]:
    """Run the application once."""

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

    persister = SQLitePersister.from_values(str(task.folder / "burr.db"))
    persister.initialize()
    application = (
        ApplicationBuilder()
        .with_actions(model, lookup, end)
        .with_transitions(("model", "end", when(finished=True)), ("model", "lookup", default), ("lookup", "model"))
        .with_identifiers(app_id="benchmark")
        .with_state_persister(persister)
        .with_entrypoint("model")
        .with_state(messages=[{"role": "user", "text": QUESTION}], finished=False)
        .build()
    )
    with stopwatch() as watch:
        _, _, state = application.run(halt_after=["end"])
    if state["messages"][-1]["text"] != ANSWER or len(state["messages"]) != 2 * task.steps + 2:
        raise RuntimeError(state["messages"][-1])
    persister.connection.close()
    return watch.cost, file_bytes(task.folder)


if __name__ == "__main__":
    script(measure)
