# pyright: basic, reportMissingImports=false
"""LangGraph: its ready-made agent with its SQLite checkpointer, and a graph whose messages are a delta channel."""

import warnings
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import ANSWER, QUESTION, TOOL, arguments, reply_text, tool_result


class Model(BaseChatModel):
    """A chat model with ready answers."""

    steps: int

    @property
    def _llm_type(self) -> str:
        return "ready-made"

    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        step = sum(message.type == "ai" for message in messages) + 1
        message = AIMessage(ANSWER)
        if step <= self.steps:
            asked = {"id": f"call-{step}", "name": TOOL, "args": arguments(step)}
            usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
            message = AIMessage(reply_text(step), tool_calls=[asked], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool(TOOL)
def lookup(step: int, table: str, query: str) -> str:
    """Look rows up."""
    return tool_result(step)


def measure(task: Task) -> Figures:
    """Run the graph in each session once; sessions at once are a batch, each in a thread."""
    model = Model(steps=task.steps)
    settings: list[Any] = [
        {
            "configurable": {"thread_id": f"benchmark-{number:06}"},
            "recursion_limit": 2 * task.steps + 10,
            "max_concurrency": task.sessions,
        }
        for number in range(task.sessions)
    ]
    asked = [{"messages": [("user", QUESTION)]} for _ in settings]
    how = {} if task.variant == "default" else {"durability": "sync"}
    with SqliteSaver.from_conn_string(str(task.folder / "checkpoints.db")) as saver:
        graph = _delta(model, saver) if task.variant == "delta" else _ready_made(model, saver)
        with watched() as figures:
            alone = task.sessions == 1
            states = [graph.invoke(asked[0], settings[0], **how)] if alone else graph.batch(asked, settings, **how)
    for state in states:
        if state["messages"][-1].content != ANSWER or len(state["messages"]) != 2 * task.steps + 2:
            raise RuntimeError(state["messages"][-1])
    figures.bytes = file_bytes(task.folder)
    return figures


def _ready_made(model: Model, saver: SqliteSaver) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it points to its successor, which stores the same way
        return create_react_agent(model, [lookup], checkpointer=saver)


def _delta(model: Model, saver: SqliteSaver) -> Any:
    # A beta: these two names are allowed to move.
    from langgraph.channels import DeltaChannel
    from langgraph.graph.message import _messages_delta_reducer

    state = TypedDict("state", {"messages": Annotated[list[Any], DeltaChannel(_messages_delta_reducer)]})  # noqa: UP013
    graph = StateGraph(state)
    graph.add_node("agent", lambda seen: {"messages": [model.invoke(seen["messages"])]})
    graph.add_node("tools", ToolNode([lookup]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


if __name__ == "__main__":
    script(measure)
