"""No microsecond decides between two endings: the same script with other microseconds ends in the same way.

What a model or a tool does takes its seconds, and a little more or less each time. Some keep the deadline that they are
given themselves, and raise when they wake up: a little before it, or a little after.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import given, strategies as st

from steptrail import AgentBuilder, ErrorPolicy, ToolContext, ToolEffect, tool
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.testing import Reply, ScriptedModel, call, say
from tests.profile import examples
from tests.runner.kit import HandClock, run

MOST_MICROSECONDS = 5_000
"""How far off a timer of a busy machine may well be."""

FRACTION = 0.3
"""What a call takes beside whole seconds. Nine calls, the most of a script, come no nearer to whole seconds than 0.1 s:
no duration comes near a limit by itself, but by being kept."""


class Beat(NamedTuple):
    """What one step does: how long its model and its tool take, and which of them keeps its time itself."""

    model_seconds: int
    tool_seconds: int
    keeps_time: str


class Setting(NamedTuple):
    """The times of a run and of its tool, in whole seconds, and what may be done about the tool's failures."""

    timeout: int | None
    cumulative_timeout: int | None
    tool_timeout: int | None
    effect: ToolEffect
    tries: int


beats = st.builds(
    Beat, st.integers(0, 3), st.integers(0, 3), st.sampled_from(["nobody", "nobody", "nobody", "model", "tool"])
)
limits = st.none() | st.integers(1, 12)
settings = st.builds(Setting, limits, limits, st.none() | st.integers(1, 3), st.sampled_from(ToolEffect), st.just(2))
jitters = st.lists(st.integers(-MOST_MICROSECONDS, MOST_MICROSECONDS), min_size=10, max_size=10)


async def ending_of(script: Sequence[Beat], setting: Setting, jitter: Sequence[int]) -> tuple[object, ...]:
    """Run a script, and return how it ended and what was recorded on the way."""
    clock, places, due = HandClock(), iter(jitter), list(script)

    def spend(seconds: float) -> None:
        clock.advance(max(0.0, seconds + next(places) / 1e6))

    def answer(beat: Beat) -> Callable[[ModelRequest], ModelReply]:
        def reply(request: ModelRequest) -> ModelReply:
            if beat.keeps_time == "model" and request.timeout is not None:
                spend(request.timeout)
                raise TimeoutError("the time that the driver was given is up")
            spend(beat.model_seconds + FRACTION)
            return call("work") if beat is not script[-1] else say("done")

        return reply

    @tool(effect=setting.effect, timeout=setting.tool_timeout)
    async def work(context: ToolContext) -> str:
        """Work."""
        beat = due.pop(0)
        if beat.keeps_time == "tool" and context.deadline_seconds is not None:
            spend(context.deadline_seconds)
            raise TimeoutError("the time that the tool was given is up")
        spend(beat.tool_seconds + FRACTION)
        return "worked"

    replies: list[Reply] = [answer(beat) for beat in script]
    builder = AgentBuilder("x").with_model(ScriptedModel(replies)).with_tools(work)
    builder.with_timeout(setting.timeout).with_cumulative_timeout(setting.cumulative_timeout)
    ran = await run(builder.with_error_policy(ErrorPolicy.retry_all(setting.tries)).build(), clock=clock)
    recorded = [(event.TYPE, getattr(event, "reason", None), getattr(event, "cut_by", None)) for event in ran.events]
    return (*ran.ending, ran.result.answered, ran.why.decided_by and ran.why.decided_by.criterion_class, recorded)


@examples(100)
@given(st.lists(beats, min_size=1, max_size=4), settings, jitters, jitters)
async def test_a_script_with_other_microseconds_ends_in_the_same_way(
    script: list[Beat], setting: Setting, one: list[int], other: list[int]
) -> None:
    assert await ending_of(script, setting, one) == await ending_of(script, setting, other)
