"""What is said of a run: recorded once, and there again in tools, hooks, validators and criteria after anything."""

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Annotated, Any, TypeVar

import pytest
from pydantic import BaseModel, Field, PlainSerializer, SecretStr, TypeAdapter
from typing_extensions import TypedDict

from steptrail import Agent, AgentBuilder, HookType, Steptrail, ToolContext, ToolEffect, tool
from steptrail.continuation import ContinuationDecision, StateView
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.json_value import JsonValue
from steptrail.errors import CommandRejected, ConfigurationError, StoredContextInvalid
from steptrail.events import ExecutionResumed, ExecutionStarted, MessagesAppended
from steptrail.hooks import HookState
from steptrail.output import OutputContext
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import Subagent, SubagentTool
from steptrail.workflow import Workflow
from tests.runner.kit import Crash, HandClock, again_on, crash_at, hook, trail_of

E = TypeVar("E", bound=AgentEvent)


class Caller(BaseModel):
    tenant: Annotated[str, Field(min_length=2)]
    locale: str = "en"


@dataclass
class Place:
    city: str


class Named(TypedDict):
    name: str


ACME, BETA = Caller(tenant="acme", locale="de"), Caller(tenant="beta")
TOLD: JsonValue = {"tenant": "acme", "locale": "de"}


@tool(effect=ToolEffect.READ)
def tenant(context: ToolContext[Caller]) -> str:
    """Say whose it is."""
    caller = context.data
    caller.locale = "changed"  # nobody else sees that
    return caller.tenant


def desk(*script: Reply) -> AgentBuilder[str, Caller]:
    return AgentBuilder("desk").with_model(ScriptedModel(script)).with_context(Caller).with_tools(tenant)


async def events_of(trail: Steptrail, kind: type[E]) -> list[E]:
    return [each.event for each in await trail.session("s").events() if isinstance(each.event, kind)]


async def started(trail: Steptrail) -> list[JsonValue]:
    return [event.context for event in await events_of(trail, ExecutionStarted)]


async def test_tools_hooks_validators_and_criteria_read_it_as_its_type() -> None:
    seen: list[tuple[str, Any]] = []

    class Looks:
        def decide(self, state: StateView, /) -> ContinuationDecision:
            seen.append(("criterion", state.data))
            return ContinuationDecision.ALLOW

    def look(state: HookState) -> None:
        seen.append((state.hook_type.value, state.data))
        assert state.context == TOLD

    def validated(answer: int, context: OutputContext[Caller]) -> int:
        seen.append(("validator", context.data))
        return answer

    builder = desk(call("tenant"), '{"value": 7}').with_output(int, mode="native").with_output_validator(validated)
    for moment in HookType:
        builder.with_hook(moment, hook("look", look))
    async with trail_of() as trail:
        result = await trail.run(builder.with_criteria(Looks()).build(), "go", session="s", context=ACME)
        assert (result.output, result.state.context, result.state.data) == (7, TOLD, TOLD)
        assert result.state.messages[2].text == "acme"
    assert {name for name, _ in seen} == {"criterion", "validator", *HookType} - {HookType.ON_ERROR}
    assert all(data == ACME for _, data in seen)


@pytest.mark.parametrize("kind", [Place, TypeAdapter(list[Named]), dict[str, int], Named, str])
async def test_it_may_be_of_any_type_that_has_a_json_form(kind: Any) -> None:
    given: dict[str, tuple[object, JsonValue]] = {
        "Place": (Place("Ulm"), {"city": "Ulm"}),
        "list": ([{"name": "a"}], [{"name": "a"}]),
        "dict": ({"a": 1}, {"a": 1}),
        "Named": ({"name": "b"}, {"name": "b"}),
        "str": ("plain", "plain"),
    }
    value, stored = given[getattr(kind, "__name__", "list")]
    seen: list[object] = []
    agent = AgentBuilder("any").with_model(ScriptedModel(["done"])).with_context(kind)
    agent.with_hook(HookType.STOP, hook("look", lambda state: seen.append(state.data)))
    async with trail_of() as trail:
        assert (await trail.run(agent.build(), "go", context=value)).state.context == stored
    assert seen == [value]


async def test_what_does_not_fit_is_refused_before_anything_is_stored() -> None:
    async with trail_of() as trail:
        agent, plain = desk("hi").build(), AgentBuilder("plain").with_model(ScriptedModel(["hi"])).build()
        with pytest.raises(ConfigurationError, match="the context does not fit Caller: tenant: String should have at"):
            await trail.run(agent, "go", session="s", context={"tenant": "x"})  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        for begin in (trail.run(agent, "go", session="s"), trail.start(agent, "go", session="s")):
            with pytest.raises(ConfigurationError, match="nothing was said of this run: give a Caller as `context`"):
                await begin
        with pytest.raises(ConfigurationError, match="agent 'plain' is told nothing of its runs: call `with_context`"):
            await trail.run(plain, "go", session="s", context=ACME)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        for say in (trail.session("s").send, trail.session("s").post):
            with pytest.raises(ConfigurationError, match="nothing was said of this run"):
                await say(agent, "go")
        assert list(await trail.runs()) == []


def test_a_type_that_cannot_be_stored_is_refused_where_it_is_given() -> None:
    class Keyed(BaseModel):
        key: SecretStr

    builder = AgentBuilder("desk")
    with pytest.raises(
        ConfigurationError, match=r"of the type Keyed: properties.key is a secret, and a context is stor"
    ):
        builder.with_context(Keyed)
    with pytest.raises(ConfigurationError, match="no context can be of the type object"):
        builder.with_context(type("object", (), {}))
    with pytest.raises(ConfigurationError, match="no context can be of the type bytes: it is bytes"):
        builder.with_context(bytes)


async def test_tools_that_want_another_context_are_refused_by_build() -> None:
    builder = AgentBuilder("desk").with_model(ScriptedModel(["hi"])).with_tools(tenant)
    with pytest.raises(
        ConfigurationError, match="'tenant' of agent 'desk' reads a Caller, and the agent is told nothi"
    ):
        builder.build()
    with pytest.raises(ConfigurationError, match="reads a Caller, and the agent is told a Place"):
        builder.with_context(Place).build()
    builder.with_context(Caller).build()


async def test_another_process_goes_on_without_the_data_given() -> None:
    async with trail_of(reach=crash_at("before-tool")) as trail:
        with pytest.raises(Crash):
            await trail.run(desk(call("tenant"), "done").build(), "go", session="s", context=ACME)
        result = await again_on(trail).session("s").resume(desk(call("tenant"), "done").build())
        assert result.state.messages[2].parts[0].kind == "tool_result"
        assert result.state.messages[2].parts[0].text == "acme"
        assert await started(trail) == [TOLD]


async def test_send_keeps_the_last_one_and_may_bring_another() -> None:
    async with trail_of() as trail:
        agent, session = desk("one", "two", "three", "four").build(), trail.session("s")
        await session.send(agent, "a", context=ACME)
        assert (await session.send(agent, "b")).state.context == TOLD
        assert (await session.send(agent, "c", context=BETA)).state.context == {"tenant": "beta", "locale": "en"}
        assert (await trail.run(agent, "d", session="s")).state.context == {"tenant": "beta", "locale": "en"}
        assert await started(trail) == [TOLD, None, {"tenant": "beta", "locale": "en"}, None]


async def test_the_same_input_with_another_context_is_another_command() -> None:
    async with trail_of() as trail:
        agent = desk("one", "two").build()
        first = await trail.run(agent, "go", session="s", context=ACME, key="k")
        for given in (ACME, None):
            for key in ("k", None):
                again = await trail.run(agent, "go", session="s", context=given, key=key)
                assert (again.stored, again.execution_id) == (True, first.execution_id)
        with pytest.raises(CommandRejected, match="execution s:1 has this input with another context: `send` says it"):
            await trail.run(agent, "go", session="s", context=BETA)
        with pytest.raises(CommandRejected, match="the key 'k' came with another input, context or command before"):
            await trail.run(agent, "go", session="s", context=BETA, key="k")
        assert (await trail.run(agent, "go", session="s", context=BETA, key="l")).execution_id == "s:2"


async def test_a_message_with_another_context_does_not_join_an_open_run() -> None:
    async with trail_of() as trail:
        agent = desk("one", "two").build()
        session = await trail.start(agent, "go", session="s", context=ACME)
        with pytest.raises(
            CommandRejected, match="is pending and has another context: wait for its end, or replace its"
        ):
            await session.post(agent, "more", context=BETA)
        await session.post(agent, "more", context=ACME, key="k")
        await session.post(agent, "more", key="k")
        assert len(await events_of(trail, MessagesAppended)) == 1
        assert (await session.resume(agent)).state.context == TOLD


async def test_a_key_of_a_run_that_kept_its_context_stands_for_that_one() -> None:
    async with trail_of() as trail:
        agent = desk("one", "two").build()
        await trail.run(agent, "a", session="s", context=ACME)
        await trail.run(agent, "b", session="s", key="k")
        assert (await trail.run(agent, "b", session="s", key="k", context=ACME)).stored
        with pytest.raises(CommandRejected, match="the key 'k' came with another input, context"):
            await trail.run(agent, "b", session="s", key="k", context=BETA)


async def test_a_resume_replaces_it_and_says_so_when_it_is_another() -> None:
    async with trail_of() as trail:
        agent = desk(call("tenant"), "done").build()
        await trail.start(agent, "go", session="s", context=ACME)
        await trail.session("s").pause()
        result = await trail.session("s").resume(agent, context=BETA)
        assert result.state.context == {"tenant": "beta", "locale": "en"}
        resumed = (await events_of(trail, ExecutionResumed))[-1]
        assert resumed.context == {"tenant": "beta", "locale": "en"}
        # The next execution keeps it.
        assert (await trail.session("s").send(desk("x", "y", "z").build(), "more")).state.context == resumed.context


async def test_a_stream_of_a_session_is_told_what_send_and_resume_are() -> None:
    async with trail_of() as trail:
        agent, session = desk(call("tenant"), "one", call("tenant"), "two").build(), trail.session("s")
        async with session.stream(agent, "go", context=ACME) as stream:
            assert (await stream.result()).state.context == TOLD
        await session.post(agent, "more")
        async with session.stream(agent, context=BETA) as stream:
            assert (await stream.result()).state.context == {"tenant": "beta", "locale": "en"}


async def test_a_resume_with_the_same_one_replaces_nothing() -> None:
    async with trail_of() as trail:
        agent = desk("done").build()
        await trail.start(agent, "go", session="s", context=ACME)
        await trail.session("s").resume(agent, context=ACME)
        (resumed,) = await events_of(trail, ExecutionResumed)
        assert resumed.context is None


async def test_a_retry_keeps_it_and_may_bring_another() -> None:
    async with trail_of() as trail:
        agent, session = desk(RuntimeError("no"), RuntimeError("no"), "done").build(), trail.session("s")
        await trail.run(agent, "go", session="s", context=ACME)
        assert (await session.retry(agent)).state.context == TOLD
        assert (await session.retry(agent, context=BETA)).state.context == {"tenant": "beta", "locale": "en"}


async def test_a_recorded_one_that_does_not_fit_any_more_is_named_and_replaced() -> None:
    class Other(BaseModel):
        tenant: int
        region: str

    def changed() -> Agent[str, Other]:
        return AgentBuilder("desk").with_model(ScriptedModel(["done"])).with_context(Other).build()

    async with trail_of() as trail:
        await trail.start(desk("done").build(), "go", session="s", context=ACME)
        said = (
            r"the stored context does not fit Other: tenant: Input should be a valid integer.*; region: Field required"
        )
        with pytest.raises(StoredContextInvalid, match=said):
            await trail.session("s").resume(changed())
        assert not await events_of(trail, ExecutionResumed)
        result = await trail.session("s").resume(changed(), context=Other(tenant=1, region="eu"))
        assert (result.output, result.state.context) == ("done", {"tenant": 1, "region": "eu"})


async def test_a_worker_leaves_a_run_whose_context_it_cannot_read() -> None:
    clock, left = HandClock(), list[str]()
    async with trail_of(clock) as trail:
        await trail.start(desk("done").build(), "go", session="s", context=ACME)
        other = AgentBuilder("desk").with_model(ScriptedModel(["done"])).with_context(Place).build()
        async with trail.work(other, on_left=lambda run, error: left.append(f"{run.session_id}: {error}")):
            while not left:
                await trail.store.wait_past(10_000, timeout=0.01)
        assert left[0].startswith("s: the stored context does not fit Place: city: ")
        async with trail.work(desk("done").build()):
            async for entry in trail.subscribe(session="s"):
                if entry.record.event.TYPE == "execution.finished.v1":
                    break
        assert (await trail.session("s").state()).output == "done"


async def test_a_fork_has_the_context_of_its_past() -> None:
    async with trail_of() as trail:
        agent = desk("one", "two").build()
        await trail.run(agent, "go", session="s", context=ACME)
        fork = await trail.session("s").fork(session="f")
        assert (await fork.send(agent, "more")).state.context == TOLD


async def test_a_subagent_of_the_same_type_is_told_the_same_and_another_what_it_is_given() -> None:
    def below(kind: type[Any]) -> AgentBuilder[str, Any]:
        return AgentBuilder("below").with_model(ScriptedModel(["done"])).with_context(kind)

    async def told(subagent: Subagent | Agent[Any, Any]) -> JsonValue:
        agent = desk(call("below", prompt="do"), "done").with_tools(SubagentTool(subagent, name="below")).build()
        async with trail_of() as trail:
            result = await trail.run(agent, "go", session="s", context=ACME)
            found = [run for run in await trail.runs() if run.parent is not None]
            if not found:
                return next(part.text for part in result.state.messages[2].parts if part.kind == "tool_result")
            return (await trail.session(found[0].session_id).state()).context

    assert await told(below(Caller).build()) == TOLD
    assert await told(Subagent(agent=below(Place).build(), context=Place("Ulm"))) == {"city": "Ulm"}
    assert await told(Subagent(agent=below(Place).build(), context=lambda caller: Place(caller.tenant))) == {
        "city": "acme"
    }
    assert await told(Subagent(agent=below(Caller).build(), context=BETA)) == {"tenant": "beta", "locale": "en"}
    assert await told(AgentBuilder("below").with_model(ScriptedModel(["done"])).build()) is None
    assert "nothing was said of this run: give a Place" in str(await told(below(Place).build()))


async def test_a_large_one_is_read_back_whole() -> None:
    async with trail_of() as trail:
        large = Caller(tenant="x" * 100_000)
        await trail.run(desk("one", "two").build(), "go", session="s", context=large)
        assert (await again_on(trail).session("s").state()).context == {"tenant": "x" * 100_000, "locale": "en"}


async def test_why_shows_it_without_the_values_of_keys_that_mean_a_secret() -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel(["done"])).with_context(dict[str, Any]).build()
    async with trail_of() as trail:
        said = {"tenant": "acme", "auth": [{"api_key": "hidden"}], "password": "hidden"}
        await trail.run(agent, "go", session="s", context=said)
        why = await trail.session("s").why()
        assert why.context == {"tenant": "acme", "auth": [{"api_key": "…"}], "password": "…"}
        assert why.to_dict()["context"] == why.context


def test_an_agent_without_a_context_is_the_same_as_before() -> None:
    plain = AgentBuilder("plain").with_model(ScriptedModel(["hi"]))
    told = plain.with_context(Caller)
    assert plain.build().snapshot.context is None
    assert plain.build().snapshot.fingerprint != told.build().snapshot.fingerprint
    assert told.build().snapshot.fingerprint != plain.with_context(Place).build().snapshot.fingerprint


@pytest.mark.parametrize("context", [{"tenant": nan}, {"a": [{"b": (1, inf)}]}, {"a": {-inf}}])
async def test_a_number_without_a_json_form_is_refused_wherever_a_type_lets_it_stand(context: dict[str, Any]) -> None:
    clerk = AgentBuilder("clerk").with_model(ScriptedModel(["Never said."])).with_context(dict[str, Any]).build()
    script = [call("clerk", prompt="Is there tea?"), "No."]
    staff = SubagentTool(Subagent(agent=clerk, context=context))
    boss = AgentBuilder("boss").with_model(ScriptedModel(script)).with_tools(staff).build()
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match="the context cannot be stored"):
            await trail.run(clerk, "Is there tea?", context=context)
        result = await trail.run(boss, "Do we have tea?")
        (asked,) = result.state.steps[0].tool_executions
        assert asked.error is not None
        assert "has no JSON form" in asked.error.message
        assert [row.name for row in await trail.runs()] == ["boss"]


def without_nan(number: float) -> float | None:
    return None if isnan(number) else number


async def test_a_null_of_a_type_of_its_own_is_stored_as_it_is_written() -> None:
    class Reading(BaseModel):
        celsius: Annotated[float, PlainSerializer(without_nan)] | None
        by: dict[str, Any]

    agent = AgentBuilder("d").with_model(ScriptedModel(["Cold."])).with_context(Reading).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "How warm?", context=Reading(celsius=nan, by={"a": None, "n": 1.5}))
    assert result.state.context == {"celsius": None, "by": {"a": None, "n": 1.5}}


async def test_equal_sets_are_one_context_whatever_their_order() -> None:
    """The order of texts in a set is another in each process, so also in the one that goes on after a crash."""

    class Rights(BaseModel):
        groups: set[int]

    agent = AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).with_context(Rights).build()
    one, same = Rights(groups={0, 8}), Rights(groups={8, 0})
    assert (one, [*one.groups]) == (same, [*reversed([*same.groups])])
    flow = Workflow("w").function("a", lambda envelope: envelope.input).build()
    async with trail_of() as trail:
        await trail.run(agent, "May I?", session="s", key="k", context=one)
        assert (await trail.run(agent, "May I?", session="s", key="k", context=same)).stored
        await trail.run(flow, {0, 8}, key="f")
        assert (await trail.run(flow, {8, 0}, key="f")).stored


async def test_a_context_may_hold_a_set_of_models_which_has_an_order_of_its_own_too() -> None:
    class Role(BaseModel, frozen=True):
        name: str

    @dataclass(frozen=True)
    class Place:
        city: str
        rooms: frozenset[str]

    class Rights(BaseModel):
        roles: set[Role]
        places: list[set[Place]]
        words: set[str]

    agent = AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).with_context(Rights).build()
    async with trail_of() as trail:
        result = await trail.run(
            agent,
            "May I?",
            context=Rights(
                roles={Role(name=letter) for letter in "hgfedcba"},
                places=[{Place(letter, frozenset("hgfedcba")) for letter in "hgfedcba"}],
                words=set("hgfedcba"),
            ),
        )
    letters = list("abcdefgh")
    assert result.state.context == {
        "roles": [{"name": letter} for letter in letters],
        "places": [[{"city": letter, "rooms": letters} for letter in letters]],
        "words": letters,
    }
