"""Two drivers over HTTP: the first is refused, and the second answers in its place with another protocol."""

from steptrail import AgentBuilder, Steptrail
from steptrail.events import InferenceFailed, InferenceStarted, ModelSwitched, RetryScheduled
from steptrail.testing.model_script import answer, refused
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import driver_of


async def test_a_second_provider_answers_when_the_first_has_refused_twice(typed_server: ModelServer) -> None:
    busy = refused(429, "slow down", code="rate_limit_exceeded", headers={"retry-after": "0"})
    typed_server.play([busy, busy, answer("Three are left.")])
    first, second = driver_of("chat", typed_server), driver_of("anthropic", typed_server)
    agent = AgentBuilder("clerk").with_model(first).with_fallback(second).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "What is left?", session="s")
        events = [each.event for each in await trail.session("s").events()]
        why = await trail.session("s").why()
    for driver in agent.models:
        await driver.close()
    asked = [request.path for request in typed_server.requests()]
    assert asked == ["/v1/chat/completions", "/v1/chat/completions", "/v1/messages"]
    assert result.output == "Three are left."
    assert [event.error.status_code for event in events if isinstance(event, InferenceFailed)] == [429, 429]
    assert len([event for event in events if isinstance(event, InferenceStarted)]) == 3
    assert len([event for event in events if isinstance(event, RetryScheduled)]) == 1
    assert why.state.switches == tuple(event for event in events if isinstance(event, ModelSwitched))
