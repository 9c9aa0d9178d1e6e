"""Questions of a thread and their answers: all at once, in time, and what was answered elsewhere."""

import pytest

from steptrail import AgentBuilder, tool
from steptrail.testing import ScriptedModel, call, calls
from steptrail.tools import ApprovalRule
from tests.agui.pages import asking, at_rest, ending, front, no, user, yes
from tests.runner.kit import HandClock, trail_of


async def test_answers_that_leave_one_out_or_name_another_or_say_something_else_are_refused() -> None:
    async with trail_of() as trail, front(trail, asking()) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        approval = question["id"]
        assert "no interrupt 'x' now" in await page.refused(409, resume=[yes("x")])
        assert "answered twice" in await page.refused(422, resume=[yes(approval), no(approval)])
        wrong = {"interruptId": approval, "status": "resolved", "payload": {"approved": "yes"}}
        assert "is to be" in await page.refused(422, resume=[wrong])
        assert "waits for answers" in await page.refused(409, *page.client.said, user("and?", "m2"))
        assert len((await trail.session("t").state()).open_approvals) == 1
        done = await page.run(resume=[no(approval)])
        assert ending(done)["outcome"] == {"type": "success"}
        assert "has been denied before" in await page.refused(409, resume=[yes(approval)])
        assert ending(await page.run(resume=[no(approval)]))["outcome"] == {"type": "success"}


PAYS_TWICE = calls(("pay", {"cents": 1}), ("pay", {"cents": 2}))


async def test_all_questions_of_a_reply_are_asked_at_once_and_answered_at_once() -> None:
    async with trail_of() as trail, front(trail, asking(PAYS_TWICE, "Paid.")) as page:
        first, second = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        assert second["id"] in await page.refused(409, resume=[yes(first["id"])])
        done = await page.run(resume=[yes(second["id"], editedArgs={"cents": 3}), yes(first["id"])])
        assert ending(done)["outcome"] == {"type": "success"}
        assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["paid 1", "paid 3"]


@pytest.mark.parametrize("says_both", [False, True])
async def test_a_question_that_was_answered_elsewhere_may_be_answered_again_and_need_not(says_both: bool) -> None:
    async with trail_of() as trail, front(trail, asking(PAYS_TWICE, "Paid.")) as page:
        first, second = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        await trail.session("t").approve(second["id"], by="ben")
        (left,) = ending(await page.run())["outcome"]["interrupts"]
        assert left == first
        done = await page.run(resume=[no(first["id"]), *([yes(second["id"])] if says_both else [])])
        assert ending(done)["outcome"] == {"type": "success"}
        assert [each["content"] for each in page.client.said if each["role"] == "tool"][1] == "paid 2"


async def test_a_yes_to_other_arguments_than_had_one_elsewhere_is_refused() -> None:
    async with trail_of() as trail, front(trail, asking(PAYS_TWICE, "Paid.")) as page:
        first, second = (each["id"] for each in ending(await page.run(user("pay")))["outcome"]["interrupts"])
        await trail.session("t").approve(second, by="ben", arguments={"cents": 5.0})
        for other in (yes(second), yes(second, editedArgs={"cents": 7})):
            said = await page.refused(409, resume=[yes(first), other])
            assert said == f"the interrupt '{second}' has been granted before, with other arguments"
        assert len((await trail.session("t").state()).open_approvals) == 1
        done = await page.run(resume=[yes(first), yes(second, editedArgs={"cents": 5.0})])
        assert ending(done)["outcome"] == {"type": "success"}
        for other in (yes(first, editedArgs={"cents": 7}), no(first)):
            assert "has been granted before" in await page.refused(409, resume=[other])


async def test_of_two_questions_the_one_that_has_expired_needs_no_answer() -> None:
    clock = HandClock()

    @tool(approval=ApprovalRule(expires=7200))
    def ship(to: str) -> str:
        """Ship."""
        return f"shipped to {to}"

    script = [calls(("pay", {"cents": 1}), ("ship", {"to": "Rome"})), "Done."]
    agent = AgentBuilder("bank").with_model(ScriptedModel(script)).with_tools(*asking().tools.values(), ship).build()
    async with trail_of(clock) as trail, front(trail, agent) as page:
        _, second = ending(await page.run(user("go")))["outcome"]["interrupts"]
        clock.advance(3601)
        events = await page.run(resume=[yes(second["id"])])
        assert "nobody approved it in time" in str(events)
        assert "shipped to Rome" in str(events)
        assert ending(events)["outcome"] == {"type": "success"}


async def test_a_question_that_has_expired_can_only_be_cancelled() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail, front(trail, asking()) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        clock.advance(3601)
        assert "has expired" in await page.refused(409, resume=[yes(question["id"])])
        events = await page.run(resume=[no(question["id"])])
        assert "nobody approved it in time" in str(events)
        assert ending(events)["outcome"] == {"type": "success"}


async def test_answers_that_are_sent_again_when_the_next_question_is_asked_lead_to_that_question() -> None:
    again = call("pay", cents=1), call("pay", cents=2), "Paid."
    async with trail_of() as trail, front(trail, asking(*again)) as page:
        (first,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        await page.post(resume=[yes(first["id"])])  # and the client never sees the answer to it
        assert "waits for answers" in await page.refused(
            409, *page.client.said, user("and?", "m2"), resume=[yes(first["id"])]
        )
        (second,) = ending(await page.run(resume=[yes(first["id"])]))["outcome"]["interrupts"]
        done = await page.run(resume=[yes(second["id"])])
        assert ending(done)["outcome"] == {"type": "success"}
        assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["paid 1", "paid 2"]


async def test_a_question_of_a_run_that_was_stopped_can_only_be_cancelled_and_the_thread_goes_on() -> None:
    # A client keeps a question until it sees how a run ends, and begins no other run without a word about it.
    async with trail_of() as trail, front(trail, asking(call("pay", cents=1), "You are welcome.")) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        await trail.session("t").stop(by="ben")
        assert "cancel it to go on" in await page.refused(409, resume=[yes(question["id"])])
        done = await page.run(user("thanks", "m2"), resume=[no(question["id"])])
        assert ending(done)["outcome"] == {"type": "success"}
        assert page.client.said[-1]["content"] == "You are welcome."


async def test_a_yes_that_is_repeated_when_another_run_goes_on_is_the_one_that_was_taken() -> None:
    script = call("pay", cents=1), "Paid.", call("pay", cents=2), "Paid too."
    async with trail_of() as trail, front(trail, asking(*script)) as page:
        (first,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        await page.post(resume=[yes(first["id"])])  # and the client never sees the answer to it
        await at_rest(trail, "t")
        await trail.session("t").post(asking(*script), "pay again", by="ben")
        (second,) = ending(await page.run(resume=[yes(first["id"])]))["outcome"]["interrupts"]
        assert "with other arguments" in await page.refused(409, resume=[yes(first["id"], editedArgs={"cents": 7})])
        assert "no interrupt 'x' now" in await page.refused(409, resume=[yes("x")])
        done = await page.run(resume=[yes(second["id"]), yes(first["id"])])
        assert ending(done)["outcome"] == {"type": "success"}
        assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["paid 1", "paid 2"]


async def test_other_arguments_that_do_not_fit_the_tool_are_refused_and_the_question_stays() -> None:
    async with trail_of() as trail, front(trail, asking()) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        said = await page.refused(422, resume=[yes(question["id"], editedArgs={"cents": "many"})])
        assert f"the editedArgs of '{question['id']}' do not fit: Invalid arguments: cents: " in said
        done = await page.run(resume=[yes(question["id"], editedArgs={"cents": 9})])
        assert ending(done)["outcome"] == {"type": "success"}
        assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["paid 9"]


async def test_a_no_is_taken_whatever_arguments_stand_beside_it() -> None:
    async with trail_of() as trail, front(trail, asking()) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        await page.run(resume=[yes(question["id"], approved=False, editedArgs={"cents": "many"})])
        assert (await trail.session("t").state()).open_approvals == ()
