"""Answers in a type, run on scripts: verdicts, validators, retries, limits, crashes, and what comes back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from steptrail import AgentBuilder, HookType
from steptrail.domain.inference import FinishReason
from steptrail.errors import ConfigurationError, StoredOutputInvalid
from steptrail.events import AnswerAccepted, AnswerRejected, InferenceCompleted, InferenceStarted
from steptrail.hooks import Critique, SelfCritic
from steptrail.live import LiveUpdate, OutputPartial, ReplyDelta
from steptrail.output import OutputMode, OutputModeName
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.tools import SubagentTool
from tests.runner.invoices import BAD, GOOD, INVOICE, TOLD, Invoice, clerk, passing
from tests.runner.kit import Crash, add, again_on, crash_at, fail, hook, run, trail_of

MODES: tuple[OutputModeName, ...] = ("native", "tool", "prompted", "last")


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Numbered(NamedTuple):
    number: int
    name: str


def called(number: int) -> int:
    """Nobody calls this with what a model says."""
    raise AssertionError(number)


async def test_the_answer_comes_as_a_value_of_the_type_and_as_json() -> None:
    done = await run(clerk(GOOD).with_output(Invoice).build())
    assert done.result.output == INVOICE
    assert done.result.output_json == INVOICE.model_dump()
    assert done.result.text == GOOD
    assert done.result.answered
    assert done.one(AnswerAccepted) == AnswerAccepted(step=1)
    assert done.one(InferenceStarted).output_mode is OutputMode.NATIVE


async def test_an_agent_in_text_records_nothing_of_it() -> None:
    done = await run(clerk(GOOD).build())
    assert (done.result.output, done.result.text, done.result.output_json) == (GOOD, GOOD, None)
    assert done.one(InferenceStarted).output_mode is None
    assert done.result.state.agent is not None
    assert done.result.state.agent.output is None


@pytest.mark.parametrize(
    ("kind", "text", "output"),
    [
        (Point, '{"x": 1}', Point(1)),
        (Named, '{"name": "a"}', {"name": "a"}),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (TypeAdapter(Literal["yes", "no"]), '{"value": "no"}', "no"),
        (TypeAdapter(int | None), '{"value": null}', None),
        (TypeAdapter(Point | list[Point]), '{"value": [{"x": 1, "y": 2}]}', [Point(1, 2)]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (str, '{"value": "tea"}', "tea"),
    ],
)
async def test_any_type_of_pydantic_will_do_and_one_that_is_no_object_is_wrapped_on_the_wire(
    kind: Any, text: str, output: object
) -> None:
    done = await run(clerk(text).with_output(kind).build())
    assert done.result.answered
    assert done.result.output == output


async def test_a_wrapped_answer_without_its_value_is_rejected() -> None:
    done = await run(clerk("[1]", '{"values": [1]}', '{"value": [1]}').with_output(list[int]).build())
    assert done.result.output == [1]
    assert [event.problems[0].at for event in done.all(AnswerRejected)] == ["value", "value"]


async def test_a_named_tuple_is_made_of_its_fields() -> None:
    done = await run(clerk('{"value": [1, "a"]}').with_output(Numbered).build())
    assert done.result.output == Numbered(1, "a")


@pytest.mark.parametrize(
    "kind", [bytes, list[bytes], TypeAdapter(Callable[[], int]), TypeAdapter(cast("Any", called)), object()]
)
def test_a_type_that_is_no_json_is_refused_where_it_is_given(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"no answer can be of the type"):
        clerk().with_output(kind)


def test_settings_that_cannot_be_are_refused_where_they_are_given() -> None:
    with pytest.raises(ConfigurationError, match=r"`with_output`: .*retries"):
        clerk().with_output(Invoice, retries=-1)
    with pytest.raises(ConfigurationError, match=r"`with_output`: .*name"):
        clerk().with_output(Invoice, name="no spaces")
    with pytest.raises(ConfigurationError, match="there is no mode 'json'; modes are auto, native, tool"):
        clerk().with_output(Invoice, mode="json")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="`with_output_validator` comes after `with_output`"):
        clerk().with_output_validator(lambda text, context: text)
    with pytest.raises(ConfigurationError, match="a validator is a function, not int"):
        clerk().with_output(Invoice).with_output_validator(3)  # type: ignore[arg-type]
    named = clerk().with_tools(add).with_output(Invoice, mode="tool", name="add")
    with pytest.raises(ConfigurationError, match="agent 'clerk' has a tool named 'add', and its output too"):
        named.build()


def test_with_output_returns_a_new_builder() -> None:
    text = clerk(GOOD)
    typed = text.with_output(Invoice).with_tools(add)
    assert text.build().snapshot.output is None
    assert text.build().snapshot.tools == ()
    assert typed.build().snapshot.output is not None


def test_the_output_is_part_of_the_fingerprint_and_an_agent_in_text_has_the_old_one() -> None:
    prints = {
        clerk().build().snapshot.fingerprint,
        clerk().with_output(Invoice).build().snapshot.fingerprint,
        clerk().with_output(Invoice, retries=3).build().snapshot.fingerprint,
        clerk().with_output(Invoice).with_output_validator(passing).build().snapshot.fingerprint,
    }
    assert len(prints) == 4


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_that_does_not_fit_is_told_and_asked_for_again(mode: OutputModeName) -> None:
    def wired(text: str) -> Reply:
        return calls(("final_result", {"number": "7", "lines": [{"name": "tea", "cents": text}]}))

    script: list[Reply] = [wired("many"), wired("3")] if mode == "tool" else [BAD, GOOD]
    done = await run(clerk(*script).with_output(Invoice, mode=mode).build())
    assert done.result.output == INVOICE
    problem = done.one(AnswerRejected).problems[0]
    assert (str(problem), problem.type) == (TOLD, "int_parsing")
    told = [message for message in done.result.state.messages if "<output_problem>" in str(message.parts)]
    assert [message.is_tool() for message in told] == [mode == "tool"]
    assert done.result.state.consecutive_failures == 0


async def test_too_many_rejections_fail_the_run_and_why_says_so() -> None:
    done = await run(clerk(BAD, BAD, BAD).with_output(Invoice).build())
    assert done.ending == ("failed", "retry_limit")
    assert (done.result.output, done.result.answered, done.result.error) == (None, False, None)
    assert f"decided by OutputAccepted: 3 answers did not fit Invoice ({TOLD})" in done.why.verdict
    assert done.why.rejected_answer == BAD
    assert done.why.advice is not None
    assert [change.text for change in done.why.advice.changes] == ["retries=3 or more in `with_output`"]
    assert done.why.advice.would_continue
    assert done.why.decided_by is not None
    assert done.why.decided_by.context["rejections"] == 3


async def test_without_retries_the_first_rejection_fails() -> None:
    done = await run(clerk(BAD).with_output(Invoice, retries=0).build())
    assert done.ending == ("failed", "retry_limit")
    assert "1 answer did not fit Invoice" in done.why.verdict


async def test_a_retry_in_place_goes_on_with_what_was_told() -> None:
    model = ScriptedModel([BAD, GOOD])
    agent = AgentBuilder("clerk").with_model(model).with_output(Invoice, retries=0).build()
    async with trail_of() as trail:
        assert (await trail.run(agent, "go", session="s")).status == "failed"
        again = await trail.session("s").retry(agent)
        assert again.output == INVOICE
    assert "<output_problem>" in model.requests[-1].messages[-1].text


async def test_the_last_words_are_the_answer_of_the_next_execution_too() -> None:
    agent = clerk(GOOD, '{"number": "8"}').with_output(Invoice).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        assert (await trail.session("s").send(agent, "and the next?")).output == Invoice(number="8")
        assert (await trail.session("s").result(agent)).output == Invoice(number="8")
        assert (await trail.session("s").result()).output == {"number": "8", "lines": []}


async def test_a_stored_answer_that_does_not_fit_any_more_is_still_there_as_json() -> None:
    class Changed(BaseModel):
        number: int
        paid: bool

    async with trail_of() as trail:
        await trail.run(clerk('{"number": "x"}').with_output(Invoice).build(), "go", session="s")
        result = await trail.session("s").result(clerk().with_output(Changed).build())
        assert result.output_json == {"number": "x", "lines": []}
        with pytest.raises(StoredOutputInvalid, match=r"does not fit .*Changed: number: .*; paid: Field required; "):
            _ = result.output


class TestToolMode:
    async def test_ordinary_calls_run_beside_the_answer_and_the_run_ends_with_it(self) -> None:
        reply = calls(("final_result", {"number": "7"}), ("add", {"a": 1, "b": 2}))
        done = await run(clerk(reply).with_tools(add).with_output(Invoice, mode="tool").build())
        assert done.ending == ("completed", "completed")
        assert done.result.output == Invoice(number="7")
        assert done.shown == ["The answer was taken.", "3"]
        assert done.result.state.tool_call_count == 1
        assert done.why.spent.tool_calls == 1

    async def test_an_answer_beside_a_failed_call_is_not_taken_and_the_model_sees_both(self) -> None:
        from steptrail import ErrorPolicy

        first = calls(("final_result", {"number": "7"}), ("fail", {}))
        builder = clerk(first, call("final_result", number="8")).with_tools(fail)
        agent = builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).with_output(Invoice, mode="tool").build()
        done = await run(agent)
        assert done.result.output == Invoice(number="8")
        assert "not all the other calls" in done.shown[0]
        assert "out of order" in done.shown[1]

    async def test_a_limit_of_calls_and_hooks_before_calls_do_not_see_the_answer(self) -> None:
        seen: list[str] = []
        builder = clerk(call("final_result", number="7")).with_tools(add).with_max_tool_calls(0)
        builder = builder.with_hook(HookType.PRE_TOOL_USE, hook("h", lambda state: seen.append("called")))
        done = await run(builder.with_output(Invoice, mode="tool").build())
        assert (done.result.output, seen) == (Invoice(number="7"), [])

    async def test_several_answers_count_as_the_first_that_fits(self) -> None:
        reply = calls(("final_result", {"number": 7}), ("final_result", {"number": "8"}), ("final_result", {}))
        done = await run(clerk(reply).with_output(Invoice, mode="tool").build())
        assert done.result.output == Invoice(number="8")
        assert done.one(AnswerAccepted).position == 1

    async def test_where_a_hook_forbids_tools_the_answer_alone_is_offered(self) -> None:
        model = ScriptedModel([call("final_result", number="7")])
        builder = AgentBuilder("clerk").with_model(model).with_tools(add).with_output(Invoice, mode="tool")
        no_tools = hook("h", lambda state: state.with_request(tool_choice="none"))
        done = await run(builder.with_hook(HookType.BEFORE_INFERENCE, no_tools).build())
        assert done.result.output == Invoice(number="7")
        assert [tool.name for tool in model.requests[0].tools] == ["final_result"]
        assert model.requests[0].tool_choice == "required"

    async def test_text_in_place_of_the_call_is_rejected(self) -> None:
        done = await run(clerk(GOOD, call("final_result", number="7")).with_output(Invoice, mode="tool").build())
        assert str(done.one(AnswerRejected).problems[0]) == "answer by calling final_result"
        assert done.result.output == Invoice(number="7")


async def test_auto_takes_what_the_driver_says_and_tool_for_a_driver_that_says_nothing() -> None:
    class Plain:
        def __init__(self) -> None:
            self.inner = ScriptedModel([call("final_result", number="7")])
            self.describe, self.infer, self.close = self.inner.describe, self.inner.infer, self.inner.close

    agent = AgentBuilder("clerk").with_model(Plain()).with_output(Invoice).build()
    done = await run(agent)
    assert done.one(InferenceStarted).output_mode is OutputMode.TOOL
    assert done.result.output == Invoice(number="7")


async def test_the_last_call_is_made_once_when_the_tools_are_done() -> None:
    model = ScriptedModel([call("add", a=1, b=2), "It is 3.", BAD, GOOD])
    agent = AgentBuilder("clerk").with_model(model).with_tools(add).with_output(Invoice, mode="last").build()
    done = await run(agent)
    assert done.result.output == INVOICE
    assert [request.output_mode for request in model.requests] == [None, None, OutputMode.LAST, OutputMode.LAST]
    assert [len(request.tools) for request in model.requests] == [1, 1, 0, 0]
    assert [event.output_mode for event in done.all(InferenceStarted)] == [None, None, "last", "last"]


async def test_the_digest_of_a_request_tells_forms_apart() -> None:
    async def digest(builder: AgentBuilder[Any]) -> str:
        return (await run(builder.build())).one(InferenceStarted).request_digest

    digests = {
        await digest(clerk(GOOD)),
        await digest(clerk(GOOD).with_output(Invoice)),
        await digest(clerk(GOOD).with_output(Invoice, description="What is to be paid.")),
        await digest(clerk('{"value": "x"}').with_output(str)),
    }
    assert len(digests) == 4
    assert await digest(clerk(GOOD).with_output(Invoice, retries=5)) in digests


async def test_cut_and_refused_answers_are_not_validated() -> None:
    for reason in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER):
        done = await run(clerk(say('{"number":', finish_reason=reason)).with_output(Invoice).build())
        assert done.ending == ("failed", "finish_reason")
        assert not done.all(AnswerRejected)


async def test_an_accepted_answer_at_a_limit_is_an_answer_and_a_rejected_one_is_none() -> None:
    accepted = await run(clerk(GOOD).with_max_steps(1).with_output(Invoice).build())
    assert (accepted.ending, accepted.result.answered) == (("completed", "steps_limit"), True)
    assert accepted.result.output == INVOICE
    rejected = await run(clerk(BAD, GOOD).with_max_steps(1).with_output(Invoice).build())
    assert (rejected.ending, rejected.result.answered) == (("completed", "steps_limit"), False)
    due = await run(clerk("done").with_tools(add).with_max_steps(1).with_output(Invoice, mode="last").build())
    assert (due.ending, due.result.answered, due.result.output) == (("completed", "steps_limit"), False, None)


async def test_a_verdict_costs_no_commit_more() -> None:
    async def commits(builder: AgentBuilder[Any]) -> int:
        done = await run(builder.build())
        return len({record.head.commit_id for record in done.records if record.head is not None})

    assert await commits(clerk(GOOD).with_output(Invoice)) == await commits(clerk(GOOD))


async def test_a_crash_between_the_reply_and_its_verdict_pays_for_one_reply() -> None:
    """With a validator the reply is stored before it runs, and the validator runs again."""
    for point in ("before-hooks", "after-hooks"):
        model = ScriptedModel([GOOD, "never said"])
        builder = AgentBuilder("clerk").with_model(model).with_output(Invoice).with_output_validator(passing)
        agent, dying = builder.build(), trail_of(reach=crash_at(point))
        with pytest.raises(Crash):
            await dying.run(agent, "go", session="s")
        trail = again_on(dying)
        result = await trail.session("s").resume(agent)
        assert (result.output, len(model.requests)) == (INVOICE, 1)
        events = [record.event for record in await trail.session("s").events()]
        assert sum(isinstance(event, InferenceCompleted) for event in events) == 1
        assert sum(isinstance(event, AnswerAccepted) for event in events) == 1
        await dying.close()


async def test_a_subagent_answers_with_the_json_itself() -> None:
    below = AgentBuilder("clerk").with_model(ScriptedModel([GOOD])).with_output(Invoice).build()
    done = await run(clerk(call("clerk", prompt="go"), "ok").with_tools(SubagentTool(below)).build())
    assert done.result.state.steps[0].tool_executions[0].result == INVOICE.model_dump()
    assert done.shown == ['{"number":"7","lines":[{"name":"tea","cents":3}]}']


async def test_partial_answers_grow_while_they_are_written() -> None:
    for builder in (
        clerk(GOOD).with_output(Invoice),
        clerk(f"```json\n{GOOD}\n```").with_output(Invoice, mode="prompted"),
    ):
        seen: list[LiveUpdate] = []
        async with trail_of() as trail:
            await trail.run(builder.build(), "go", on_update=seen.append)
        partials = [update.partial for update in seen if isinstance(update, OutputPartial)]
        assert partials[-1] == INVOICE.model_dump()
        assert {type(update) for update in seen} == {ReplyDelta, OutputPartial}


async def test_a_wrapped_partial_answer_is_unwrapped_and_text_has_none() -> None:
    seen: list[LiveUpdate] = []
    async with trail_of() as trail:
        await trail.run(clerk('{"value": [1, 2]}').with_output(list[int]).build(), "go", on_update=seen.append)
        await trail.run(clerk("[1, 2]").build(), "go", on_update=seen.append)
        tool_mode = clerk(call("final_result", number="7")).with_output(Invoice, mode="tool").build()
        await trail.run(tool_mode, "go", on_update=seen.append)
    assert [update.partial for update in seen if isinstance(update, OutputPartial)][-1] == [1, 2]


async def test_an_answer_in_a_call_stays_where_earlier_traces_are_left_out() -> None:
    first = calls(("final_result", {"number": "1"}))
    model = ScriptedModel([call("add", a=1, b=2), first, call("final_result", number="2")])
    builder = AgentBuilder("clerk").with_model(model).with_tools(add).with_earlier_tool_traces(False)
    agent = builder.with_output(Invoice, mode="tool").build()
    async with trail_of() as trail:
        await trail.run(agent, "one", session="s")
        await trail.session("s").send(agent, "two")
    shown = [
        (message.role.value, [each.name for each in message.tool_calls]) for message in model.requests[-1].messages
    ]
    assert shown == [("user", []), ("assistant", ["final_result"]), ("tool", []), ("user", [])]


async def test_a_self_critic_judges_the_answer_that_was_accepted() -> None:
    judged: list[str] = []

    def judge(task: str, answer: str) -> Critique:
        judged.append(answer)
        return Critique(approved=len(judged) > 1, feedback="more tea")

    builder = clerk(BAD, GOOD, '{"number": "8"}').with_output(Invoice).with_capability(SelfCritic(judge))
    done = await run(builder.build())
    assert done.result.output == Invoice(number="8")
    assert judged == ['{"number":"7","lines":[{"name":"tea","cents":3}]}', '{"number":"8","lines":[]}']
