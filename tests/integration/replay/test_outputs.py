"""A replay reads the recorded verdicts: no validator runs again, unless the answer is asked for in another form."""

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder
from steptrail.events import AnswerAccepted, AnswerRejected
from steptrail.interfaces.python.redaction import redact
from steptrail.output import OutputContext, OutputRejected
from steptrail.testing import Recording, ReplayMismatch, ScriptedModel, normalise, replay
from tests.runner.kit import trail_of


class Count(BaseModel):
    number: int


class Named(BaseModel):
    number: int
    name: str


JUDGED: list[int] = []


def odd(count: Count, context: OutputContext) -> Count:
    JUDGED.append(count.number)
    if count.number % 2 == 0:
        raise OutputRejected("it is even")
    return count


def broken(count: Count, context: OutputContext) -> Count:
    JUDGED.append(count.number)
    raise RuntimeError("no books")


def counting() -> AgentBuilder[Count]:
    model = ScriptedModel(['{"number": 2}', '{"number": 3}'])
    return AgentBuilder("counter").with_model(model).with_output(Count).with_output_validator(odd)


async def recorded(builder: AgentBuilder[Count]) -> Recording:
    async with trail_of() as trail:
        await trail.run(builder.build(), "go", session="s")
        recording = Recording("s", await trail.session("s").history())
    JUDGED.clear()
    return recording


async def test_the_recorded_verdicts_hold_and_no_validator_runs() -> None:
    recording = await recorded(counting())
    again = await replay(counting().build(), recording)
    assert normalise(again.events) == normalise(recording.events)
    assert (again.result.output, JUDGED) == (Count(number=3), [])


async def test_a_validator_that_broke_is_not_asked_again() -> None:
    model = ScriptedModel(['{"number": 2}'])
    builder = AgentBuilder("counter").with_model(model).with_output(Count).with_output_validator(broken)
    recording = await recorded(builder)
    again = await replay(builder.build(), recording)
    assert normalise(again.events) == normalise(recording.events)
    assert (again.result.status, JUDGED) == ("failed", [])


async def test_with_another_output_the_stored_answers_are_judged_and_what_follows_is_unknown() -> None:
    recording = await recorded(counting())
    other = AgentBuilder("counter").with_model(ScriptedModel([])).with_output(Named)
    with pytest.raises(ReplayMismatch, match="has 2 model calls, and call 3 came"):
        await replay(other.build(), recording, match="structural")
    assert JUDGED == []


async def test_an_answer_that_is_json_loses_the_values_of_redacted_keys_and_replays() -> None:
    recording = await recorded(counting())
    redacted = redact(recording, ["number"])
    assert '"number": 3' not in str(redacted.events)
    again = await replay(counting().build(), redacted)
    kinds = [type(event) for event in again.events if isinstance(event, AnswerAccepted | AnswerRejected)]
    assert kinds == [AnswerRejected, AnswerAccepted]
