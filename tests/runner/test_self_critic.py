"""A judge looks at an answer before it ends the run: what it sends back is revised, and not for ever."""

import asyncio
from typing import Any, cast

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType
from steptrail.domain.agent.events import InferenceCompleted, MessagesAppended, UsageRecorded
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import FinishReason
from steptrail.domain.usage import Usage
from steptrail.hooks import CallableHook, Critique, Judge, SelfCritic
from steptrail.models import ModelDriver
from steptrail.runtime.agent.builder import Capability
from steptrail.testing import Reply, ScriptedModel, call, say
from tests.runner.kit import Crash, Run, add, again_on, crash_at, fail, run, trail_of

ONE = Usage(input=10, output=5)
WITH_USAGE = "the judge failed: ConfigurationError: `with_usage`"


def critical(judge: ModelDriver | Judge, *script: Reply, most: int = 2) -> Agent:
    critic = SelfCritic(judge, max_iterations=most)
    builder = AgentBuilder("poet").with_model(ScriptedModel(script)).with_tools(add, fail)
    return builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).with_capability(critic).build()


def says(*verdicts: str) -> ScriptedModel:
    return ScriptedModel(verdicts, name="judge")


def refuses(task: str, answer: str) -> Critique:
    del task
    return Critique(approved=False, feedback=f"not {answer}")


def corrections(ran: Run) -> list[str]:
    return [event.messages[0].text for event in ran.all(MessagesAppended)]


async def test_an_answer_that_is_approved_ends_the_run() -> None:
    ran = await run(critical(says("APPROVE"), "A rhyme."))
    assert (ran.ending, ran.result.output) == (("completed", "completed"), "A rhyme.")
    assert ran.result.state.metadata["self_critic_result"] == {"approved": True, "feedback": ""}
    assert ran.result.state.metadata["self_critic_iteration"] == 0
    assert ("SelfCritic", "stop") in [(v.criterion_class, v.decision.value) for v in ran.why.votes]


async def test_an_answer_that_is_sent_back_is_really_revised() -> None:
    ran = await run(critical(says("REVISE: make it rhyme", "Approved."), "A line.", "A line, so fine."))
    assert (ran.ending, ran.result.output) == (("completed", "completed"), "A line, so fine.")
    assert corrections(ran) == ["[CORRECTION REQUIRED - Iteration 1]\nmake it rhyme"]
    assert [message.text for message in ran.result.state.messages] == [
        "go",
        "A line.",
        "[CORRECTION REQUIRED - Iteration 1]\nmake it rhyme",
        "A line, so fine.",
    ]
    assert ran.result.state.metadata["self_critic_iteration"] == 1


async def test_the_last_iteration_that_is_not_approved_says_retry_limit() -> None:
    ran = await run(critical(refuses, "one", "two", "never said"))
    assert (ran.ending, ran.result.output) == (("completed", "retry_limit"), "two")
    assert ran.why.decided_by is not None
    assert ran.why.decided_by.reason == "Answer not approved after 2/2 iterations: not two"
    assert ran.result.state.metadata["self_critic_iteration"] == 2
    # Nobody would read a correction after the end.
    assert corrections(ran) == ["[CORRECTION REQUIRED - Iteration 1]\nnot one"]


async def test_a_critic_without_iterations_judges_nothing_and_the_agent_answers_once() -> None:
    ran = await run(critical(refuses, "one", "two", most=0))
    assert (ran.ending, ran.result.output, ran.result.answered) == (("completed", "completed"), "one", True)
    assert ran.result.state.step_count == 1


@pytest.mark.parametrize(("most", "steps"), [(1, 1), (3, 3)])
async def test_it_sends_back_as_often_as_it_may(most: int, steps: int) -> None:
    ran = await run(critical(refuses, "one", "two", "three", "four", most=most))
    assert (ran.ending, ran.result.state.step_count) == (("completed", "retry_limit"), steps)


async def test_an_approval_of_the_last_iteration_is_an_approval() -> None:
    ran = await run(critical(says("REVISE", "APPROVE"), "one", "two"))
    assert ran.ending == ("completed", "completed")


def broken(task: str, answer: str) -> Critique:
    raise RuntimeError(f"no opinion of {answer} for {task}")


def says_yes(task: str, answer: str) -> Critique:
    return cast("Critique", task < answer)


async def cancels_itself(task: str, answer: str) -> Critique:
    raise asyncio.CancelledError(task, answer)


def gives(**said: Any) -> Judge:
    return lambda task, answer: Critique(approved=False, **said)


async def says_false_in_a_text(task: str, answer: str) -> Critique:
    return Critique(approved=cast("bool", str(task == answer).lower()))


async def gives_a_number(task: str, answer: str) -> Critique:
    return Critique(approved=False, feedback=cast("str", len(task + answer)))


@pytest.mark.parametrize(
    ("judge", "problem"),
    [
        (broken, "the judge failed: RuntimeError: no opinion of An answer. for go"),
        (ScriptedModel([RuntimeError("no line")]), "the judge failed: RuntimeError: no line"),
        (
            ScriptedModel([RuntimeError("GET https://x.example/?api_key=s3cret")]),
            "the judge failed: RuntimeError: GET https://x.example/?api_key=…",
        ),
        (says("Hm."), "the judge said neither APPROVE nor REVISE: 'Hm.'"),
        (says_yes, "the judge failed: TypeError: it returned bool, not a Critique"),
        (says_false_in_a_text, "the judge failed: TypeError: its `approved` is str, not True or False"),
        (gives_a_number, "the judge failed: TypeError: its feedback is int, not a text"),
        (gives(usage=12), f"{WITH_USAGE}: the bill is of the class Usage, not int"),
        (
            gives(usage=Usage(input=-4)),
            f"{WITH_USAGE} was given what cannot be stored: Expected `int` >= 0 - at `$.usage.input`",
        ),
        (gives(models=(Usage(),)), f"{WITH_USAGE}: what a model has used is of the class ModelUsage, not Usage"),
        (cancels_itself, "the judge failed: it cancelled itself, and nobody had asked it to"),
    ],
)
async def test_a_judge_that_fails_has_approved_and_the_metadata_says_why(
    judge: ModelDriver | Judge, problem: str
) -> None:
    ran = await run(critical(judge, "An answer."))
    assert ran.ending == ("completed", "completed")
    assert ran.result.state.metadata["self_critic_result"] == {"approved": True, "feedback": "", "problem": problem}


async def test_what_the_judge_costs_is_part_of_the_bill_and_of_the_limits() -> None:
    ran = await run(critical(says("REVISE", "Hm."), "one", "two"))
    assert [event.usage.total for event in ran.all(UsageRecorded)] == [ONE.total, ONE.total]
    assert ran.result.usage == ran.result.state.own_usage == Usage(input=40, output=20)
    priced = Critique(approved=True, usage=Usage(input=1))
    assert (await run(critical(lambda task, answer: priced, "one"))).result.usage == Usage(input=11, output=5)


async def test_only_final_answers_that_are_whole_are_judged() -> None:
    asked: list[str] = []

    async def judge(task: str, answer: str) -> Critique:
        asked.append(answer)
        return Critique(approved=True)

    await run(critical(judge, call("add", a=1, b=2), call("fail"), "Three."))
    await run(critical(judge, ""))
    await run(critical(judge, say("Cut off", finish_reason=FinishReason.LENGTH)))
    assert asked == ["Three."]


async def test_one_critic_serves_many_runs_and_each_input_begins_anew() -> None:
    agent = critical(refuses, "one", "two", "three", "four")
    async with trail_of() as trail:
        first = await trail.run(agent, "go", session="a")
        again = await trail.session("a").send(agent, "and again")
        other = await trail.run(agent, "go", session="b")
    endings = [(each.stop_reason, each.state.step_count) for each in (first, again, other)]
    assert endings == [("retry_limit", 2)] * 3


@pytest.mark.parametrize("crash", range(1, 6))
async def test_a_crash_anywhere_loses_no_iteration(crash: int) -> None:
    agent = critical(refuses, "one", "two", "never said")
    async with trail_of(reach=crash_at("after-append", crash)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        result = await again_on(trail).run(agent, "go", session="s")
        events = [record.event for record in await trail.session("s").events()]
    assert (result.stop_reason, result.output, result.state.step_count) == ("retry_limit", "two", 2)
    assert [type(event) for event in events].count(InferenceCompleted) == 2


@pytest.mark.parametrize("wrong", [-1, "2", None, 1.5, float("nan"), True])
def test_iterations_that_cannot_be_counted_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^the max_iterations of a self-critic is a (whole )?number"):
        SelfCritic(refuses, max_iterations=wrong)


async def test_a_capability_is_whatever_makes_settings() -> None:
    class Greeter:
        def add_to(self, builder: AgentBuilder) -> None:
            greet = CallableHook(lambda state: state.with_metadata("greeted", True), "greet")
            builder.with_hook(HookType.EXECUTION_START, greet).with_max_steps(1)

    greeter: Capability = Greeter()
    agent = AgentBuilder("host").with_model(ScriptedModel(["Hello."])).with_capability(greeter).build()
    assert agent.limits.max_steps == 1
    assert (await run(agent)).result.state.metadata == {"greeted": True}
