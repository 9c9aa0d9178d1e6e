# pyright: basic, reportMissingImports=false
"""The OpenAI Agents SDK: its runner with its SQLite session."""

import asyncio
import json
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.texts import ANSWER, QUESTION, TOOL, arguments, reply_text, tool_result


class ReadyMade(Model):
    """A model with ready answers."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        step = 1 + (0 if isinstance(input, str) else sum(item.get("role") == "assistant" for item in input))
        text = reply_text(step) if step <= self._steps else ANSWER
        said = ResponseOutputText(text=text, type="output_text", annotations=[])
        output: list[Any] = [
            ResponseOutputMessage(id=f"m{step}", role="assistant", status="completed", type="message", content=[said])
        ]
        if step <= self._steps:
            wanted = json.dumps(arguments(step))
            output.append(
                ResponseFunctionToolCall(call_id=f"call-{step}", name=TOOL, type="function_call", arguments=wanted)
            )
        usage = Usage(requests=1, input_tokens=10, output_tokens=10, total_tokens=20)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@function_tool(name_override=TOOL)
async def lookup(step: int, table: str, query: str) -> str:
    """Look rows up."""
    return tool_result(step)


def measure(task: Task) -> Figures:
    """Run the agent in each session once."""
    figures = asyncio.run(_measured(task))
    figures.bytes = file_bytes(task.folder)
    return figures


async def _measured(task: Task) -> Figures:
    set_tracing_disabled(True)
    agent = Agent(name="benchmark", model=ReadyMade(task.steps), tools=[lookup])
    file = task.folder / "session.db"
    sessions = [SQLiteSession(f"benchmark-{number:06}", file) for number in range(task.sessions)]
    turns = task.steps + 2
    with watched() as figures:
        results = await asyncio.gather(
            *(Runner.run(agent, QUESTION, session=session, max_turns=turns) for session in sessions)
        )
    for result, session in zip(results, sessions, strict=True):
        kept = len(await session.get_items())
        session.close()
        if result.final_output != ANSWER or kept != 3 * task.steps + 2:
            raise RuntimeError(result.final_output)
    return figures


if __name__ == "__main__":
    script(measure)
