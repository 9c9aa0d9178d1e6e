"""`run` means that an input has been answered, `send` that something new is said: neither is done twice, or lost."""

import asyncio
import logging

import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ExecutionResumed, ExecutionStarted, MessagesAppended, MetadataChanged
from steptrail.errors import CommandRejected, SessionBusy
from steptrail.messages import Message
from steptrail.models import ModelReply, ModelRequest
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import ApprovalRule
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of


async def inputs(trail: Steptrail, session: str = "s") -> list[str]:
    """Return all that was said to the session, in order."""
    said: list[str] = []
    for record in await trail.session(session).events():
        match record.event:
            case ExecutionStarted(input=Message() as message):
                said.append(message.text)
            case MessagesAppended(messages=messages):
                said += [message.text for message in messages]
            case _:
                pass
    return said


async def test_the_newest_input_again_returns_what_it_ended_with_and_a_line_of_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trail_of() as trail:
        first = await trail.run(agent_of(["Paid."]).build(), "Pay 5.", session="s")
        with caplog.at_level(logging.INFO, logger="steptrail.runs"):
            again = await trail.run(agent_of([]).build(), "Pay 5.", session="s")
        assert (first.stored, again.stored) == (False, True)
        assert (again.output, again.execution_id, again.state) == ("Paid.", "s:1", first.state)
        (line,) = [record for record in caplog.records if record.name == "steptrail.runs"]
        assert line.levelname == "INFO"
        assert line.getMessage() == "session s: execution s:1 has this input already, its result is returned"


async def test_a_stored_failure_names_the_retry_that_would_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async with trail_of() as trail:
        agent = agent_of([PermissionError("no key"), "Paid."]).build()
        await trail.run(agent, "Pay 5.", session="s")
        with caplog.at_level(logging.INFO, logger="steptrail.runs"):
            assert (await trail.run(agent, "Pay 5.", session="s")).status == "failed"
        assert caplog.messages[-1].endswith(": it came to no answer, `retry` goes on with it")


async def test_any_other_input_begins_the_next_execution_also_one_that_is_not_the_newest() -> None:
    async with trail_of() as trail:
        agent = agent_of(["One.", "Two.", "Three."]).build()
        for text, output in (("a", "One."), ("b", "Two."), ("a", "Three.")):
            result = await trail.run(agent, text, session="s")
            assert (result.output, result.stored) == (output, False)


async def test_while_another_input_is_answered_a_run_is_refused_and_told_of_send_and_resume() -> None:
    async with trail_of(reach=crash_at("after-inference")) as trail:
        agent = agent_of(["One.", "Two."]).build()
        with pytest.raises(Crash):
            await trail.run(agent, "a", session="s")
        with pytest.raises(CommandRejected, match=r"`send` adds this to it, `resume` goes on with it"):
            await again_on(trail).run(agent, "b", session="s")
        assert (await again_on(trail).run(agent, "a", session="s")).output == "One."


@pytest.mark.parametrize("key", [None, "order-7"])
@pytest.mark.parametrize("point", ["after-append", "before-release", "after-release"])
async def test_the_same_call_after_a_crash_behind_the_last_commit_runs_nothing(point: str, key: str | None) -> None:
    number = 2 if point == "after-append" else 1
    async with trail_of(reach=crash_at(point, number)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent_of(["Paid."]).build(), "Pay 5.", session="s", key=key)
        again = await again_on(trail).run(agent_of([]).build(), "Pay 5.", session="s", key=key)
        assert (again.output, again.stored, again.state.fold.executions) == ("Paid.", True, 1)


async def test_an_input_that_came_again_under_a_new_key_is_answered_under_that_key_too() -> None:
    async with trail_of(reach=crash_at("after-inference")) as trail:
        agent = agent_of(["Paid."]).build()
        with pytest.raises(Crash):
            await trail.run(agent, "Pay 5.", session="s")
        first = await again_on(trail).run(agent, "Pay 5.", session="s", key="order-7")
        again = await again_on(trail).run(agent, "Pay 5.", session="s", key="order-7")
        assert [(each.output, each.execution_id, each.stored) for each in (first, again)] == [
            ("Paid.", "s:1", False),
            ("Paid.", "s:1", True),
        ]


class Held(ScriptedModel):
    """Answers when it is let."""

    def __init__(self, *script: Reply) -> None:
        super().__init__(script)
        self.may_answer = asyncio.Event()

    async def infer(self, request: ModelRequest) -> ModelReply:
        await self.may_answer.wait()
        return await super().infer(request)


@pytest.mark.parametrize(
    ("second", "error", "why"),
    [
        ("b", CommandRejected, "answers another input: `send` adds this to it"),
        ("a", SessionBusy, r"is being run by .* with `resume\(\.\.\., take_over=True\)`"),
    ],
)
async def test_of_two_runs_at_once_in_a_new_session_one_is_answered_and_the_other_told_why_not(
    second: str, error: type[Exception], why: str
) -> None:
    async with trail_of() as trail:
        model = Held("One.", "Two.")
        agent = AgentBuilder("held").with_model(model).build()
        runs = {asyncio.create_task(trail.run(agent, text, session="s")): text for text in ("a", second)}
        # Either may be the quicker one, and is held until the other was told.
        (slower,), (quicker,) = await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(error, match=why):
            await slower
        model.may_answer.set()
        assert (await quicker).output == "One."
        assert await inputs(trail) == [runs[quicker]]


async def test_what_is_sent_is_always_something_new_also_the_same_words() -> None:
    async with trail_of() as trail:
        agent = agent_of(["One.", "Two.", "Three."]).build()
        await trail.run(agent, "more", session="s")
        for output in ("Two.", "Three."):
            assert (await trail.session("s").send(agent, "more")).output == output
        assert await inputs(trail) == ["more"] * 3


@pytest.mark.parametrize("session", ["new", "idle"])
@pytest.mark.parametrize("words", [("a", "b"), ("same", "same")])
async def test_of_messages_sent_at_the_same_moment_none_is_lost(session: str, words: tuple[str, str]) -> None:
    async with trail_of() as trail:
        agent = agent_of(["Yes."] * 9).build()
        before = ["hello"] if session == "idle" else []
        for text in before:
            await trail.session("s").send(agent, text)
        both = [trail.session("s").send(agent, text) for text in words]
        one, other = await asyncio.gather(*both)
        assert sorted(await inputs(trail)) == sorted([*before, *words])
        assert {one.status.value, other.status.value} <= {"completed", "in_progress"}
        state = await trail.session("s").state()
        assert (state.status, state.has_unanswered_input) == ("completed", False)


async def test_a_message_opens_a_session_that_does_not_exist() -> None:
    async with trail_of() as trail:
        opened = await trail.session("s").send(agent_of(["Hello."]).build(), "Hello?", by="ana", key="m-1")
        again = await trail.session("s").send(agent_of([]).build(), "Hello?", by="ana", key="m-1")
        assert (opened.output, again.output, again.stored) == ("Hello.", "Hello.", True)


async def test_another_message_under_a_key_that_was_sent_is_refused_and_not_lost_in_silence() -> None:
    async with trail_of() as trail:
        agent = agent_of(["One.", "Two."]).build()
        await trail.session("s").send(agent, "a", key="m-1")
        with pytest.raises(CommandRejected, match="cannot send to session 's': the key 'm-1' came with another input"):
            await trail.session("s").send(agent, "b", key="m-1")


async def test_who_asks_is_recorded_whatever_the_command_turns_into() -> None:
    async with trail_of(reach=crash_at("after-inference")) as trail:
        agent = agent_of(["One.", "Two.", "Three."]).build()
        with pytest.raises(Crash):
            await trail.run(agent, "a", session="s", by="ana")
        other = again_on(trail)
        await other.run(agent, "a", session="s", by="ben")
        await other.session("s").send(agent, "b", by="cleo")
        async with other.session("s").stream(agent, "c", by="dora") as streamed:
            await streamed.result()
        events = [record.event for record in await other.session("s").events()]
        asked = [event for event in events if isinstance(event, ExecutionStarted | ExecutionResumed)]
        assert [event.by for event in asked] == ["ana", "ben", "cleo", "dora"]


async def test_metadata_of_a_run_is_recorded_where_it_begins_an_execution_and_changed_by_no_repetition() -> None:
    async with trail_of() as trail:
        agent = agent_of(["One.", "Two."]).build()
        await trail.run(agent, "a", session="s", metadata={"tenant": "acme", "tries": 1})
        again = await trail.run(agent, "a", session="s", metadata={"tenant": "other"})
        assert (again.stored, again.state.metadata["tenant"]) == (True, "acme")
        later = await trail.run(agent, "b", session="s", by="ana", metadata={"tenant": "acme", "tries": 2})
        assert dict(later.state.metadata) == {"tenant": "acme", "tries": 2}
        events = [record.event for record in await trail.session("s").events()]
        (changed,) = [event for event in events if isinstance(event, MetadataChanged)]
        assert (changed.changes, changed.by) == ({"tries": 2}, "ana")


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600.0))
def refund(amount: int) -> str:
    """Refund."""
    return f"refunded {amount}"


async def test_a_session_that_waits_on_is_looked_at_and_nothing_is_written() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        model = ScriptedModel([call("refund", amount=9), "Done."])
        agent = AgentBuilder("desk").with_model(model).with_tools(refund).build()
        waiting = await trail.run(agent, "Refund 9.", session="s")
        session = trail.session("s")
        for ask in (session.resume(agent), trail.run(agent, "Refund 9.", session="s"), session.resume(agent)):
            looked_at = await ask
            assert (looked_at.status, looked_at.state.version) == ("waiting", waiting.state.version)
        joined = await session.send(agent, "Quick, please.")
        assert (joined.status, joined.state.version) == ("waiting", waiting.state.version + 1)
        await session.approve(waiting.state.open_approvals[0].id, by="ana")
        assert (await session.resume(agent)).output == "Done."


async def test_a_wait_that_is_over_is_gone_on_with() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        model = ScriptedModel([call("refund", amount=9), "It expired."])
        agent = AgentBuilder("desk").with_model(model).with_tools(refund).build()
        await trail.run(agent, "Refund 9.", session="s")
        clock.advance(3601)
        assert (await trail.session("s").resume(agent)).output == "It expired."
