"""A run whose question was answered, and which nobody has taken up since, is stopped and paused at once."""

import pytest

from steptrail import Steptrail
from steptrail.errors import CommandRejected
from steptrail.workflow import BuiltWorkflow, RunOptions, Workflow


def asking() -> BuiltWorkflow:
    flow = Workflow("asking").human("q", prompt="Publish?").function("work", lambda _: "done", effect="unsafe")
    return flow.chain("q", "work").build()


@pytest.mark.parametrize("has_answer", [True, False])
async def test_a_stop_ends_it(has_answer: bool) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(asking(), session="a")
        flow = trail.flow("a")
        if has_answer:
            await flow.answer("q", approved=True, by="ann")
        assert (await flow.stop(by="ops")).status == "stopped"
        assert await trail.due() == []


@pytest.mark.parametrize("has_answer", [True, False])
async def test_a_pause_is_one_and_the_answer_stays(has_answer: bool) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(asking(), session="a")
        flow = trail.flow("a")
        if has_answer:
            await flow.answer("q", approved=True, by="ann")
        assert (await flow.pause(by="ops")).status == "paused"
        assert await trail.due() == []
        if not has_answer:
            await flow.answer("q", approved=True, by="ann")
        result = await flow.resume(asking())
        assert (result.status, result.output) == ("completed", "done")


async def test_a_retry_of_what_was_stopped_does_not_ask_again() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(asking(), session="a")
        flow = trail.flow("a")
        await flow.answer("q", approved=True, by="ann")
        await flow.stop(by="ops")
        result = await flow.retry(asking())
        assert (result.status, result.output) == ("completed", "done")


async def test_who_answered_in_an_earlier_run_has_not_answered_what_was_stopped() -> None:
    held = RunOptions(pause_before=("work",))
    async with Steptrail.open("sqlite:///:memory:") as trail:
        flow = trail.flow("a")
        for number in (1, 2):
            await trail.run(asking(), number, session="a", options=held)
            await flow.answer("q", approved=True, by="ann")
            await flow.resume(asking())
            if number == 1:
                await flow.step("work", "continue", by="ann")
                await flow.resume(asking())
        await flow.stop(by="ops")
        with pytest.raises(CommandRejected, match="no visit of 'work' is held"):
            await flow.step("work", "continue", by="ben")
        with pytest.raises(CommandRejected, match="ann has answered it already"):
            await flow.answer("q", approved=True, by="ben")
        await trail.run(asking(), 3, session="a")
        await flow.stop(by="ops")
        with pytest.raises(CommandRejected, match="nobody is asked about 'q'"):
            await flow.answer("q", approved=True, by="ben")
