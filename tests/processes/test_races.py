"""Somebody else comes first, at the worst moment there is: between a decision and its append."""

import asyncio

import pytest

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    MessagesAppended,
    StopRequested,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    WaitStarted,
)
from steptrail.domain.errors import AppendOutcomeUnknown, OwnershipLost, SessionBusy, StoreUnavailable
from steptrail.domain.hooks.hook import CallableHook
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.record import Commit, CommitHead
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import OnUnknown
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.scripted_model import ScriptedModel, call
from tests.processes.agents.interposed import Interposed
from tests.processes.scene import NAME, Scene, agent_of, idle, look, once, paused, pausing, stopped


async def test_a_message_that_comes_before_the_resume_is_stored_does_not_cost_the_session() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done", "and that")
    await scene.crash_before(ToolExecutionCompleted, agent)
    scene.once_before(ExecutionResumed, lambda: scene.say("One more thing."))
    result = await scene.owner.session(NAME).resume(agent)
    assert (result.status.value, result.output) == ("completed", "done")
    assert len(await scene.events(ExecutionResumed)) == 1


async def test_a_stop_of_a_crashed_session_holds_against_a_message_that_comes_first() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    await scene.crash_before(ToolExecutionCompleted, agent)
    scene.once_before(ExecutionResumed, lambda: scene.say("One more thing."))
    result = await scene.owner.session(NAME).stop(by="ops")
    assert (result.status.value, result.stop_reason) == ("completed", "user_requested")


async def test_a_reply_survives_a_message_that_comes_before_it_is_stored() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done", "and that")
    scene.once_before(InferenceCompleted, lambda: scene.say("One more thing."))
    result = await scene.owner.run(agent, "Go.", session=NAME)
    assert result.output == "done"
    assert len(await scene.events(InferenceStarted)) == len(await scene.events(InferenceCompleted)) == 2
    assert len(await scene.events(ToolExecutionStarted)) == 1


async def test_nothing_starts_when_a_stop_comes_before_the_start_is_stored() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    scene.once_before(ToolExecutionStarted, lambda: stopped(scene.other))
    result = await scene.owner.run(agent, "Go.", session=NAME)
    assert result.stop_reason == "user_requested"
    assert await scene.events(ToolExecutionStarted) == []
    assert len(await scene.events(InferenceCompleted)) == 1


async def test_what_a_hook_changed_in_the_model_call_survives_a_message_that_comes_first() -> None:
    def insist(state: HookState) -> HookState:
        return state.with_request(tool_choice="required")

    scene = Scene()
    model = ScriptedModel([call("look"), "done"])
    builder = AgentBuilder("races").with_model(model).with_tools(look)
    agent = builder.with_hook(HookType.BEFORE_INFERENCE, CallableHook(insist)).build()
    scene.once_before(InferenceStarted, lambda: scene.say("Hurry."))
    await scene.owner.run(agent, "Go.", session=NAME)
    assert [request.tool_choice for request in model.requests] == ["required", "required"]


async def test_a_stop_that_comes_after_the_owners_last_look_is_carried_out_all_the_same() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    scene.store.after_append = pausing(scene)
    stop: asyncio.Task[object] | None = None

    async def moment(stream: str) -> None:
        nonlocal stop
        if stop is None:  # the owner has paused and still holds the lease
            stop = asyncio.create_task(scene.other.stop(by="ops"))
            await asyncio.wait({stop})

    scene.store.before_release = moment
    await scene.owner.run(agent, "Go.", session=NAME)
    state = await scene.other.state()
    assert (state.status.value, state.stop_reason) == ("completed", "user_requested")


async def test_a_resume_waits_for_an_owner_that_has_paused_and_is_letting_go() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    scene.store.after_append = pausing(scene)
    resumed: asyncio.Task[object] | None = None

    async def moment(stream: str) -> None:
        nonlocal resumed
        if resumed is None:
            resumed = asyncio.create_task(scene.other.resume(agent))
            await asyncio.sleep(0.05)

    scene.store.before_release = moment
    assert (await scene.owner.run(agent, "Go.", session=NAME)).status == "paused"
    scene.store.after_append = idle
    assert resumed is not None
    await resumed
    assert (await scene.other.state()).output == "done"


async def test_a_message_to_a_run_that_finishes_first_starts_the_next_one() -> None:
    scene, agent = Scene(), agent_of("done", "and that")
    sender = Interposed()
    sender.inner = scene.store.inner
    sent: asyncio.Task[object] | None = None
    at_append, go_on = asyncio.Event(), asyncio.Event()

    async def hold(commit: Commit) -> None:
        if any(isinstance(event, MessagesAppended) for _, event in commit.events):
            at_append.set()
            await go_on.wait()

    sender.before_append = hold

    async def send() -> None:
        nonlocal sent
        session = Steptrail(Environment(store=sender, worker="sender")).session(NAME)
        sent = asyncio.create_task(session.send(agent, "And that?"))
        await at_append.wait()

    scene.once_before(ExecutionFinished, send)
    await scene.owner.run(agent, "Go.", session=NAME)
    go_on.set()
    assert sent is not None
    await sent
    state = await scene.other.state()
    assert (state.status.value, state.output, state.fold.executions) == ("completed", "and that", 2)


async def test_a_message_that_meets_an_append_of_somebody_else_is_stored_once() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done", "and that")
    await scene.crash_before(ToolExecutionCompleted, agent)
    sender = Interposed()
    sender.inner = scene.store.inner
    sender.before_append = once(lambda: scene.say("Me first."))
    await Steptrail(Environment(store=sender, worker="sender")).session(NAME).send(agent, "And that?")
    sent = [event for event in await scene.events(MessagesAppended) if isinstance(event, MessagesAppended)]
    assert [event.messages[0].text for event in sent] == ["Me first.", "And that?"]


async def test_a_verdict_that_meets_an_append_of_somebody_else_is_stored_once() -> None:
    scene = Scene()

    @tool(on_unknown=OnUnknown.PARK)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = AgentBuilder("races").with_model(ScriptedModel([call("pay"), "done", "so"])).with_tools(pay).build()
    await scene.crash_before(ToolExecutionCompleted, agent)
    parked = await scene.owner.session(NAME).resume(agent)
    assert parked.status == "waiting"
    person = Interposed()
    person.inner = scene.store.inner
    person.before_append = once(lambda: scene.say("One more thing."))
    session = Steptrail(Environment(store=person, worker="person")).session(NAME)
    await session.settle(f"{NAME}:1:1:0", "completed", by="ana", result="paid")
    assert len(await scene.events(ToolExecutionCompleted)) == 1
    assert len(await scene.events(MessagesAppended)) == 1


async def test_a_commit_whose_reply_was_lost_is_found_and_not_written_twice() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    lost = 0

    async def lose(commit: Commit) -> None:
        nonlocal lost
        if lost < 3:
            lost += 1
            raise AppendOutcomeUnknown("the connection broke")

    async def lose_every_other(commit: Commit) -> None:
        if commit.head.commit_id not in told:
            told.add(commit.head.commit_id)
            await lose(commit)

    told: set[str] = set()
    scene.store.after_append = lose_every_other
    result = await scene.owner.run(agent, "Go.", session=NAME)
    assert (result.output, lost) == ("done", 3)
    assert len(await scene.events(ToolExecutionCompleted)) == 1


@pytest.mark.parametrize("when", ["before_append", "after_append"])
async def test_a_fork_whose_reply_was_lost_is_opened_once(when: str) -> None:
    scene = Scene()
    await scene.owner.run(agent_of("done"), "Go.", session=NAME)
    setattr(scene.store, when, once(_connection_lost))
    fork = await scene.owner.session(NAME).fork(session="f")
    assert len(await fork.events()) == 1


async def test_a_take_over_before_a_result_is_stored_leaves_the_old_owner_one_thing_to_say() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    scene.once_before(ToolExecutionCompleted, lambda: scene.other.resume(agent, take_over=True))
    with pytest.raises(OwnershipLost):
        await scene.owner.run(agent, "Go.", session=NAME)
    records = await scene.other.events()
    taken = next(i for i, record in enumerate(records) if isinstance(record.event, ExecutionResumed))
    late = [r.event.TYPE for r in records[taken:] if r.head is not None and r.head.segment == 1]
    assert late == ["tool.execution.settled_late.v1"]


async def test_what_the_old_owner_has_to_say_is_said_once_also_when_the_answer_to_it_is_lost() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    scene.once_before(ToolExecutionCompleted, lambda: scene.other.resume(agent, take_over=True))
    scene.store.after_append = once(_connection_lost, ToolExecutionSettledLate)
    with pytest.raises(OwnershipLost):
        await scene.owner.run(agent, "Go.", session=NAME)
    assert len(await scene.events(ToolExecutionSettledLate)) == 1


async def test_an_owner_that_cannot_say_what_it_has_to_say_hears_of_the_take_over_and_of_the_store() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")

    async def moment(commit: Commit) -> None:
        kinds = {type(event) for _, event in commit.events}
        if ToolExecutionCompleted in kinds:
            await scene.other.resume(agent, take_over=True)
        if ToolExecutionSettledLate in kinds:
            raise StoreUnavailable("the disk is gone")

    scene.store.before_append = moment
    with pytest.raises(OwnershipLost) as lost:
        await scene.owner.run(agent, "Go.", session=NAME)
    assert isinstance(lost.value.__cause__, StoreUnavailable)


async def test_a_call_that_was_settled_late_is_not_said_to_have_crashed() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    await scene.crash_before(ToolExecutionCompleted, agent)

    async def settle_late() -> None:
        stored = await scene.store.inner.read(f"agent:{NAME}")
        late = ToolExecutionSettledLate(effect_id=f"{NAME}:1:1:0", attempt=1, segment=1, result="42, at last")
        commit = Commit(CommitHead(commit_id="c-late", actor="old owner", segment=1), ((1, late),))
        await scene.store.inner.append(f"agent:{NAME}", stored.head, commit)

    scene.once_before(ToolExecutionInterrupted, settle_late)
    result = await scene.owner.session(NAME).resume(agent)
    assert result.state.steps[0].tool_executions[0].text == "42, at last"
    assert await scene.events(ToolExecutionInterrupted) == []
    assert len(await scene.events(ToolExecutionStarted)) == 1


async def test_a_call_that_never_ran_is_not_reported_as_one_of_an_earlier_step() -> None:
    scene, agent = Scene(), agent_of(call("look"), call("no_such_tool"), "done")
    scene.once_before(ToolExecutionFailed, lambda: scene.other.resume(agent, take_over=True))
    with pytest.raises(OwnershipLost):
        await scene.owner.run(agent, "Go.", session=NAME)
    assert await scene.events(ToolExecutionSettledLate) == []


async def test_a_stop_that_reaches_the_log_when_the_owner_has_let_go_is_carried_out_by_who_asked() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    asker = Interposed()
    asker.inner = scene.store.inner
    let_go = asyncio.Event()

    async def hold(commit: Commit) -> None:
        if any(isinstance(event, StopRequested) for _, event in commit.events):
            await let_go.wait()

    asker.before_append = hold
    stop: asyncio.Task[object] | None = None

    async def ask() -> None:
        nonlocal stop
        session = Steptrail(Environment(store=asker, worker="asker")).session(NAME)
        stop = asyncio.create_task(session.stop(by="ops"))
        await paused(scene.other)

    scene.once_before(InferenceCompleted, ask)
    assert (await scene.owner.run(agent, "Go.", session=NAME)).status == "paused"
    let_go.set()
    assert stop is not None
    await stop
    state = await scene.other.state()
    assert (state.status.value, state.stop_reason) == ("completed", "user_requested")


async def test_an_owner_that_waits_for_a_retry_notices_that_it_was_taken_over() -> None:
    scene = Scene()
    policy = ErrorPolicy.retry_all().with_backoff(Backoff.linear(30.0))
    model = ScriptedModel([ConnectionError("no"), "done"])
    agent = AgentBuilder("races").with_model(model).with_error_policy(policy).build()
    owner = asyncio.create_task(scene.owner.run(agent, "Go.", session=NAME))
    while not (await scene.store.inner.version(f"agent:{NAME}") and await scene.events(WaitStarted)):
        await asyncio.sleep(0.01)
    taken = asyncio.create_task(scene.other.resume(agent, take_over=True))
    done, _ = await asyncio.wait({owner}, timeout=60)
    assert done, "it went on waiting"
    assert isinstance(owner.exception(), OwnershipLost)
    taken.cancel()
    await asyncio.wait({taken})


async def test_a_run_that_is_gone_on_with_elsewhere_refuses_before_it_does_anything() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    refused: list[Exception] = []

    async def second() -> None:
        try:
            await Steptrail(Environment(store=scene.store.inner)).run(agent, "Go.", session=NAME)
        except SessionBusy as error:
            refused.append(error)

    scene.once_before(InferenceCompleted, second)
    await scene.owner.run(agent, "Go.", session=NAME)
    assert len(refused) == 1
    assert len(await scene.events(ExecutionStarted)) == 1
    assert await scene.events(ExecutionResumed) == []


async def _connection_lost() -> None:
    raise AppendOutcomeUnknown("the connection broke")
