"""The request of a model call is built once: what the log has the digest of is what the driver is given."""

from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder, ErrorPolicy, HookType, Message
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import InferenceStarted
from steptrail.domain.agent.state import AgentState
from steptrail.domain.inference import ModelRequest
from steptrail.runtime.agent.request import Requests
from steptrail.testing import Reply, ScriptedModel, call, say
from steptrail.testing.scenario import given
from tests.runner.kit import Crash, Run, add, again_on, crash_at, hook, run, trail_of
from tests.unit.agent.story import asked, ended, opened, said, step, told


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The version of the state of each request that is built."""
    versions: list[int] = []
    build = Requests.build

    def counted(self: Requests, state: AgentState, agent: AgentSnapshot) -> ModelRequest:
        versions.append(state.version)
        return build(self, state, agent)

    monkeypatch.setattr(Requests, "build", counted)
    return versions


def agent_of(*script: Reply) -> tuple[AgentBuilder, ScriptedModel]:
    model = ScriptedModel(script)
    return AgentBuilder("a").with_model(model).with_tools(add), model


def before_starts(ran: Run) -> list[int]:
    return [record.version - 1 for record in ran.records if isinstance(record.event, InferenceStarted)]


async def test_each_model_call_builds_its_request_once(built: list[int]) -> None:
    builder, model = agent_of(call("add", a=1, b=2), call("add", a=3, b=4), "done")
    ran = await run(builder.build())
    assert built == before_starts(ran)
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]


async def test_another_try_of_a_failed_call_has_a_request_of_its_own(built: list[int]) -> None:
    builder, model = agent_of(ConnectionError("down"), "done")
    ran = await run(builder.with_error_policy(ErrorPolicy.retry_all(2)).build())
    assert built == before_starts(ran)
    assert [request.call_index for request in model.requests] == [0, 1]


async def test_what_a_hook_adds_before_the_call_is_in_the_one_request(built: list[int]) -> None:
    builder, model = agent_of(call("add", a=1, b=2), "done")
    note = Message.user("Be quick.")
    adds = hook("adds", lambda state: state.with_request(extra_messages=(note,), tool_choice="none"))
    ran = await run(builder.with_hook(HookType.BEFORE_INFERENCE, adds).build())
    assert built == before_starts(ran)
    assert [request.messages[-1] for request in model.requests] == [note, note]
    assert {request.tool_choice for request in model.requests} == {"none"}


async def test_the_one_request_has_the_time_that_is_left_when_the_call_is_made() -> None:
    builder, model = agent_of("done")
    await run(builder.with_timeout(5.0).build())
    assert [request.timeout for request in model.requests] == [5.0]


def test_a_request_that_was_built_for_an_earlier_state_is_not_taken(built: list[int]) -> None:
    requests, before = Requests(), given(*opened(), *step()).state
    assert before.agent is not None
    requests.build(before, before.agent)
    later = given(*opened(), *step(), asked(), said("Tea?"), ended(), told("Yes."), *step(2), asked(2)).state
    request = requests.started(later, before.agent)
    assert (len(request.messages), built) == (3, [before.version, later.version])


async def test_a_process_that_resumes_builds_the_request_anew(built: list[int]) -> None:
    builder, model = agent_of(call("add", a=1, b=2), "done")
    async with trail_of(reach=crash_at("before-inference", 2)) as trail:
        with pytest.raises(Crash):
            await trail.run(builder.build(), "go", session="s")
        async with again_on(trail) as later:
            assert (await later.session("s").resume(builder.build())).output == "done"
            records = await later.session("s").events()
    starts = [record for record in records if isinstance(record.event, InferenceStarted)]
    assert built == [record.version - 1 for record in starts]
    assert len(starts) == 3
    assert starts[1].event == structs.replace(starts[2].event, attempt=1)
    assert [len(request.messages) for request in model.requests] == [1, 3]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"usage": None}, "Expected `object`, got `null` - at `$.usage`"),
        ({"parts": ("Hello.",)}, "Expected `object`, got `str` - at `$.parts[0]`"),
    ],
    ids=["usage", "parts"],
)
async def test_given_a_driver_whose_reply_is_malformed_then_the_failure_says_whose_reply_it_is(
    wrong: dict[str, Any], why: str
) -> None:
    reply = structs.replace(say("Hello."), **wrong)
    ran = await run(AgentBuilder("x").with_model(ScriptedModel([lambda request: reply])).build())
    assert ran.result.error is not None
    assert ran.result.error.message == f"the model driver returned a ModelReply that is none: {why}"
