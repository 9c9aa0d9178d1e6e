# pyright: basic, reportMissingImports=false
"""LangGraph: a graph of three nodes with its SQLite checkpointer, each run a thread of its own."""

from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import QUESTION, arguments, reply_text, tool_result


class Held(TypedDict, total=False):
    """What the nodes share."""

    question: str
    number: int
    wanted: dict[str, Any]
    found: str
    said: str


def measure(task: Task) -> Figures:
    """Run the graph; what runs at once is a batch, each in a thread."""
    states: list[Any] = []
    with SqliteSaver.from_conn_string(str(task.folder / "checkpoints.db")) as saver:
        graph = _graph(saver)
        with watched() as figures:
            for number in range(1, task.steps + 1):
                settings: list[Any] = [
                    {"configurable": {"thread_id": f"run-{lane:04}-{number:06}"}, "max_concurrency": task.sessions}
                    for lane in range(task.sessions)
                ]
                asked = [{"question": QUESTION, "number": number} for _ in settings]
                if task.sessions == 1:
                    states.append(graph.invoke(asked[0], settings[0], durability="sync"))
                else:
                    states += graph.batch(asked, settings, durability="sync")
    for state in states:
        if state["found"] != tool_result(state["number"]) or state["said"] != reply_text(state["number"]):
            raise RuntimeError(state)
    figures.bytes = file_bytes(task.folder)
    return figures


def _graph(saver: SqliteSaver) -> Any:
    graph = StateGraph(Held)
    graph.add_node("prepare", lambda held: {"wanted": arguments(held["number"])})
    graph.add_node("lookup", lambda held: {"found": tool_result(held["wanted"]["step"])})
    graph.add_node("conclude", lambda held: {"said": reply_text(held["number"])})
    for before, after in ((START, "prepare"), ("prepare", "lookup"), ("lookup", "conclude"), ("conclude", END)):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


if __name__ == "__main__":
    script(measure)
