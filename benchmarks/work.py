"""The work that is measured: an agent that asks for one tool call a step, and every built-in criterion votes on it.

The model and the tool answer at once, so all the time is the library's. Every limit is set and none is reached.
"""

from collections.abc import Awaitable, Callable, Mapping

from benchmarks.texts import ANSWER, QUESTION, TOOL, arguments, reply_text, tool_result
from steptrail import Agent, AgentBuilder, Limits, RunResult, Steptrail, ToolEffect, tool
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.messages import TextPart, ToolCallPart
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import Usage

_FAR_AWAY = 1e6
_USAGE = Usage(input=10, output=10)


class _Model:
    """A `ModelDriver` with its replies ready. Keeps no request, as no client of a provider does."""

    def __init__(
        self,
        replies: Mapping[int, ModelReply],
        at_call: Callable[[int], None] | None,
        held: Callable[[int], Awaitable[None]] | None,
    ) -> None:
        self._replies, self._at_call, self._held = replies, at_call, held

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="benchmark", model="ready-made")

    async def infer(self, request: ModelRequest) -> ModelReply:
        if self._at_call is not None:
            self._at_call(request.call_index)
        if self._held is not None:
            await self._held(request.call_index)
        return self._replies[request.call_index]

    async def close(self) -> None:
        pass


@tool(name=TOOL, effect=ToolEffect.READ)
async def _lookup(step: int, table: str, query: str) -> str:
    """Look rows up."""
    return tool_result(step)


def agent(
    steps: int,
    *,
    at_call: Callable[[int], None] | None = None,
    held: Callable[[int], Awaitable[None]] | None = None,
    done: int = 0,
) -> Agent:
    """Return an agent that answers after `steps` steps with a tool call each.

    `at_call` is told the number of each model call, from 0, when it is made. A model call lasts as long as what `held`
    returns for its number. No reply is made ready for the first `done` steps, which another process has run.
    """
    limits = Limits(
        max_steps=steps + 2,
        max_tokens=1_000_000_000,
        timeout=_FAR_AWAY,
        cumulative_timeout=_FAR_AWAY,
        finish_reasons=(FinishReason.OTHER,),
    )
    builder = (
        AgentBuilder("benchmark")
        .with_model(_Model(_replies(done, steps), at_call, held))
        .with_tools(_lookup)
        .with_limits(limits)
    )
    return builder.build()


def session_name(number: int) -> str:
    """Return the id of one of the sessions that are measured; all have the same length."""
    return f"session-{number:06}"


async def run(trail: Steptrail, who: Agent, session: str) -> RunResult:
    """Run the work in one session. Raises `RuntimeError` when it does not end with the answer."""
    result = await trail.run(who, QUESTION, session=session)
    if result.status is not ExecutionStatus.COMPLETED or result.output != ANSWER:
        msg = f"the work ended as {result.status} with {result.output!r}"
        raise RuntimeError(msg)
    return result


def _replies(done: int, steps: int) -> dict[int, ModelReply]:
    answer = ModelReply(parts=(TextPart(text=ANSWER),), finish_reason=FinishReason.STOP, usage=_USAGE)
    return {**{step - 1: _asking(step) for step in range(done + 1, steps + 1)}, steps: answer}


def _asking(step: int) -> ModelReply:
    tool_result(step)  # made before any clock starts
    call = ToolCallPart(id=f"call-{step}", name=TOOL, arguments={**arguments(step)})
    parts = (TextPart(text=reply_text(step)), call)
    return ModelReply(parts=parts, finish_reason=FinishReason.TOOL_CALLS, usage=_USAGE)
