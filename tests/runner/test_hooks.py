"""When hooks run in a real run, what their changes become, and what a hook that fails does to the run."""

import asyncio

import pytest

from steptrail import ErrorPolicy, HookType, Message
from steptrail.continuation import ContinuationDecision, StopReason
from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    InferenceRequestAmended,
    InferenceStarted,
    MessagesAppended,
    MetadataChanged,
    ToolCallAmended,
    ToolExecutionCompleted,
)
from steptrail.domain.agent.events.session import MessageSource
from steptrail.hooks import (
    CallableHook,
    CompositeMatcher,
    EventTypeMatcher,
    HookState,
    Next,
    StepsLimitHook,
    ToolNameMatcher,
    ToolNameRegexMatcher,
)
from steptrail.testing import ScriptedModel, call, calls
from tests.runner.kit import Run, agent_of, hook, run, vote, votes_in

REQUEST, ALLOW, STOP, FORBID = (
    ContinuationDecision.REQUEST,
    ContinuationDecision.ALLOW,
    ContinuationDecision.STOP,
    ContinuationDecision.FORBID,
)


def phases(ran: Run) -> list[tuple[str, int, int | None]]:
    return [(mark.hook_type, mark.step, mark.position) for mark in ran.all(HooksRan)]


IN_TURN = [("pre_tool_use", 1, 0), ("post_tool_use", 1, 0), ("pre_tool_use", 1, 1), ("post_tool_use", 1, 1)]
SIDE_BY_SIDE = [("pre_tool_use", 1, 0), ("pre_tool_use", 1, 1), ("post_tool_use", 1, 0), ("post_tool_use", 1, 1)]


@pytest.mark.parametrize(("at_once", "of_the_calls"), [(1, IN_TURN), (8, SIDE_BY_SIDE)])
async def test_each_type_runs_where_it_should(at_once: int, of_the_calls: list[tuple[str, int, int]]) -> None:
    everywhere = [(hook_type, hook(hook_type.value, lambda state: None)) for hook_type in HookType]
    builder = agent_of([calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "done"], *everywhere)
    ran = await run(builder.with_max_concurrent_tools(at_once).build())
    assert phases(ran) == [
        ("execution_start", 0, None),
        ("before_step", 0, None),
        ("before_inference", 1, None),
        ("after_inference", 1, None),
        *of_the_calls,
        ("after_step", 1, None),
        ("before_step", 1, None),
        ("before_inference", 2, None),
        ("after_inference", 2, None),
        ("after_step", 2, None),
        ("before_step", 2, None),
        ("stop", 2, None),
        ("execution_end", 2, None),
    ]
    assert ran.ending == ("completed", "completed")


async def test_a_failed_step_runs_its_error_hooks_between_after_step_and_before_step() -> None:
    kinds = (HookType.AFTER_STEP, HookType.ON_ERROR, HookType.BEFORE_STEP, HookType.AFTER_INFERENCE)
    ran = await run(
        agent_of([ValueError("no")], *((kind, hook(kind.value, lambda state: None)) for kind in kinds)).build()
    )
    # No reply, no after_inference.
    assert [name for name, _, _ in phases(ran)] == ["before_step", "after_step", "on_error", "before_step"]


async def test_hooks_of_a_phase_run_by_priority_then_as_added_and_a_failing_one_stops_no_other() -> None:
    order: list[str] = []

    def noted(name: str, *, fails: bool = False) -> CallableHook:
        async def later(state: HookState) -> HookState:
            await asyncio.sleep(0)
            order.append(name)
            if fails:
                raise RuntimeError("boom")
            return state

        return CallableHook(later, name)

    builder = agent_of(["done"])
    for name, priority in [("a", 0), ("b", 5), ("c", 0), ("d", 9)]:
        builder.with_hook(HookType.BEFORE_STEP, noted(name, fails=name == "b"), priority=priority)
    ran = await run(builder.build())
    assert order == ["d", "b", "a", "c"]
    assert ran.one(HooksRan).hooks == ("d", "b", "a", "c")
    assert ran.ending == ("failed", "error")
    assert ran.result.outcome is not None
    assert ran.result.outcome.resolved_by == "b"
    # It failed before the first step, so nothing was asked of the model.
    assert "step.started" not in ran.types


async def test_matchers_choose_the_calls() -> None:
    seen: list[str] = []

    def look(name: str) -> CallableHook:
        def noted(state: HookState) -> None:
            tool = state.current_execution.tool_call
            seen.append(f"{name}:{tool.name if tool else None}")

        return hook(name, noted)

    builder = agent_of([calls(("add", {"a": 1, "b": 2}), ("fail", {})), "done"])
    builder.with_error_policy(ErrorPolicy.ignore_tool_errors())
    builder.with_hook(HookType.PRE_TOOL_USE, look("shell"), matcher=ToolNameMatcher("[!f]*"))
    builder.with_hook(HookType.POST_TOOL_USE, look("regex"), matcher=ToolNameRegexMatcher("^f"))
    both = CompositeMatcher.or_(EventTypeMatcher(HookType.AFTER_STEP), ToolNameMatcher("FAIL"))
    builder.with_hook(HookType.PRE_TOOL_USE, look("never"), matcher=both)
    builder.with_hook(HookType.AFTER_STEP, look("always"), matcher=both)
    await run(builder.build())
    assert seen == ["shell:add", "regex:fail", "always:None", "always:None"]


async def test_every_change_is_an_event_that_names_its_hook() -> None:
    note = Message.user("be brief")
    ran = await run(
        agent_of(
            [call("add", a=1, b=2), "done"],
            (HookType.EXECUTION_START, hook("m", lambda s: s.with_metadata("city", "Bern").without_metadata("old"))),
            (HookType.AFTER_INFERENCE, hook("n", lambda s: s.with_messages(note) if s.open_step == 1 else None)),
            (HookType.AFTER_STEP, hook("v", lambda s: s.with_evaluation(vote(ALLOW, "mine")))),
        ).build()
    )
    assert ran.all(MetadataChanged) == [
        MetadataChanged(changes={"city": "Bern"}, by="m"),
        MetadataChanged(removed=("old",), by="m"),
    ]
    assert ran.one(MessagesAppended) == MessagesAppended(messages=(note,), source=MessageSource.HOOK, by="n")
    hooked = [event for event in ran.all(EvaluationsRecorded) if event.hook is not None]
    assert [(event.hook, votes_in(event)) for event in hooked] == [("v", [("mine", "allow")])] * 2
    assert dict(ran.result.state.metadata) == {"city": "Bern"}
    # Said during the step, so it stands behind the result of the step's call.
    assert [message.role.value for message in ran.result.state.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]


async def test_a_change_counts_when_its_method_is_called_whatever_the_hook_returns() -> None:
    def drops_the_change(state: HookState) -> HookState:
        state.with_metadata("kept", True)
        return state

    seen: list[dict[str, object]] = []
    ran = await run(
        agent_of(
            ["done"],
            (HookType.EXECUTION_START, CallableHook(drops_the_change, "a")),
            (HookType.EXECUTION_START, hook("b", lambda s: seen.append(dict(s.metadata)))),
        ).build()
    )
    assert seen == [{"kept": True}]
    assert dict(ran.result.state.metadata) == {"kept": True}


async def test_an_async_hook_may_await_what_it_passes_on() -> None:
    class Waits:
        name = "waits"

        async def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002 - the protocol's word
            return await next(state.with_metadata("seen", True))

    ran = await run(agent_of(["Done."]).with_hook(HookType.BEFORE_STEP, Waits()).build())
    assert (ran.result.status, dict(ran.result.state.metadata)) == ("completed", {"seen": True})


async def test_the_criteria_stand_first_in_the_trace_and_the_hooks_after_them() -> None:
    ran = await run(
        agent_of(["done"], (HookType.AFTER_STEP, hook("v", lambda s: s.with_evaluation(vote(ALLOW, "late"))))).build()
    )
    assert [event.hook for event in ran.all(EvaluationsRecorded)] == [None, "v", None]
    outcome = ran.result.outcome
    assert outcome is not None
    names = [each.criterion_class for each in outcome.evaluations]
    assert (names[0], names[-1]) == ("UserStop", "late")


async def test_a_hooks_vote_is_resolved_with_the_others_at_the_boundary() -> None:
    ran = await run(
        agent_of(
            ["first", "second"],
            (
                HookType.AFTER_INFERENCE,
                hook("v", lambda s: s.with_evaluation(vote(REQUEST)) if s.open_step == 1 else None),
            ),
        ).build()
    )
    assert ran.ending == ("completed", "completed")
    assert ran.decisions[1] == (1, "boundary", True, "tests.hook")
    assert ran.result.output == "second"


async def test_no_request_of_a_hook_beats_a_limit() -> None:
    ran = await run(
        agent_of(["again"] * 9, (HookType.AFTER_STEP, hook("v", lambda s: s.with_evaluation(vote(REQUEST)))))
        .with_max_steps(3)
        .build()
    )
    assert ran.ending == ("completed", "steps_limit")
    assert ran.result.state.step_count == 3


async def test_a_guard_hook_stops_a_run_as_its_criterion_would() -> None:
    builder = agent_of([call("add", a=1, b=2)] * 5).with_hook(HookType.BEFORE_STEP, StepsLimitHook(2), priority=200)
    ran = await run(builder.build())
    assert ran.ending == ("completed", "steps_limit")
    assert ran.types.count("step.started") == 2


async def test_a_changed_request_is_one_calls_request() -> None:
    model = ScriptedModel([call("add", a=1, b=2), "done"])
    hint = Message.system("use add")
    builder = agent_of([]).with_model(model)

    def first_only(state: HookState) -> HookState | None:
        if state.open_step != 1:
            return None
        return state.with_request(
            extra_messages=(hint,), tools=("add",), tool_choice="required", parallel_tool_calls=False
        )

    ran = await run(builder.with_hook(HookType.BEFORE_INFERENCE, hook("r", first_only)).build())
    first, second = model.requests
    assert ([t.name for t in first.tools], first.tool_choice, first.parallel_tool_calls) == (["add"], "required", False)
    assert first.messages[-1] == hint
    assert ([t.name for t in second.tools], second.tool_choice) == (["add", "fail"], "auto")
    assert second.parallel_tool_calls is None
    assert hint not in second.messages
    assert hint not in ran.result.state.messages
    assert ran.one(InferenceRequestAmended).hook == "r"
    assert [started.tool_choice for started in ran.all(InferenceStarted)] == ["required", "auto"]


async def test_amendments_of_several_hooks_add_up_in_order() -> None:
    model = ScriptedModel(["done"])
    one, two = Message.system("one"), Message.system("two")
    builder = agent_of([]).with_model(model)
    builder.with_hook(
        HookType.BEFORE_INFERENCE, hook("a", lambda s: s.with_request(tool_choice="none", extra_messages=(one,)))
    )
    builder.with_hook(
        HookType.BEFORE_INFERENCE, hook("b", lambda s: s.with_request(tool_choice="required", extra_messages=(two,)))
    )
    await run(builder.build())
    (request,) = model.requests
    assert request.tool_choice == "required"
    assert list(request.messages)[-2:] == [one, two]


async def test_amended_arguments_run_and_are_shown_in_the_step() -> None:
    ran = await run(
        agent_of(
            [call("add", a=1, b=2), "done"],
            (HookType.PRE_TOOL_USE, hook("x", lambda s: s.with_tool_arguments({"a": 40, "b": 2}))),
        ).build()
    )
    assert ran.one(ToolCallAmended).hook == "x"
    assert ran.one(ToolExecutionCompleted).result == 42
    (execution,) = ran.result.state.steps[0].tool_executions
    assert execution.arguments == {"a": 40, "b": 2}
    assert ran.shown == ["42"]


async def test_amended_arguments_are_validated_like_the_models() -> None:
    ran = await run(
        agent_of(
            [call("add", a=1, b=2), "done"],
            (HookType.PRE_TOOL_USE, hook("x", lambda s: s.with_tool_arguments({"a": "many"}))),
        )
        .with_error_policy(ErrorPolicy.ignore_tool_errors())
        .build()
    )
    (error,) = ran.result.state.steps[0].errors
    assert error.error.type == "validation"
    assert ran.shown[0].startswith("Error in tool call: ")
    assert ran.ending == ("completed", "completed")


@pytest.mark.parametrize(
    ("hook_type", "steps"),
    [
        (HookType.EXECUTION_START, 0),
        (HookType.BEFORE_STEP, 0),
        (HookType.BEFORE_INFERENCE, 1),
        (HookType.AFTER_INFERENCE, 1),
        (HookType.POST_TOOL_USE, 1),
        (HookType.AFTER_STEP, 1),
    ],
)
async def test_a_hook_that_raises_fails_the_run_at_the_next_decision(hook_type: HookType, steps: int) -> None:
    def boom(state: HookState) -> None:
        raise RuntimeError("boom")

    ran = await run(agent_of([call("add", a=1, b=2), "done"], (hook_type, hook("broken", boom))).build())
    assert ran.ending == ("failed", "error")
    assert ran.result.state.step_count == steps
    outcome = ran.result.outcome
    assert outcome is not None
    assert outcome.get_forbidding_criterion() == "broken"
    vote_of = outcome.get_evaluation_for("broken")
    assert vote_of is not None
    told = dict(vote_of.context)
    assert str(told.pop("frames")).startswith("['tests/runner/test_hooks.py:")
    assert told == {"exception": "builtins.RuntimeError", "message": "boom"}


async def test_a_hook_that_raises_at_the_end_is_recorded_and_changes_nothing_of_what_was_decided() -> None:
    def boom(state: HookState) -> None:
        raise RuntimeError("boom")

    ran = await run(agent_of(["done"], (HookType.EXECUTION_END, hook("broken", boom))).build())
    assert ran.ending == ("completed", "completed")
    last = ran.all(EvaluationsRecorded)[-1]
    assert (last.hook, votes_in(last)) == ("broken", [("broken", "forbid")])
    assert ran.decisions[-1] == (1, "boundary", False, "aggregate")


async def test_a_vote_of_a_hook_carries_its_own_stop_reason() -> None:
    ran = await run(
        agent_of(
            [call("add", a=1, b=2), "done"],
            (
                HookType.AFTER_STEP,
                hook("v", lambda s: s.with_evaluation(vote(FORBID, "budget", StopReason.TOKEN_LIMIT))),
            ),
        ).build()
    )
    assert ran.ending == ("completed", "token_limit")
    ran = await run(
        agent_of(
            [call("add", a=1, b=2)], (HookType.AFTER_STEP, hook("v", lambda s: s.with_evaluation(vote(FORBID))))
        ).build()
    )
    assert ran.ending == ("completed", "guard")


@pytest.mark.parametrize("script", [["done"], [call("add", a=1, b=2), "done"], [ValueError("no")]])
async def test_each_decision_is_one_event_and_each_execution_has_one_end(script: list[object]) -> None:
    everywhere = [
        (hook_type, hook(hook_type.value, lambda s: s.with_metadata("at", s.hook_type.value))) for hook_type in HookType
    ]
    ran = await run(agent_of(script, *everywhere).build())  # type: ignore[arg-type]
    decided = [(made.step, made.phase) for made in ran.all(ContinuationEvaluated)]
    assert len(decided) == len(set(decided)) == ran.result.state.step_count + 1
    assert ran.types.count("execution.finished") == 1
    assert ran.types[-1] == "execution.finished"


async def test_hooks_see_the_tools_result_before_the_model_does() -> None:
    seen: list[object] = []

    def look(state: HookState) -> None:
        execution = state.current_execution.tool_execution
        seen.append(execution.result if execution else None)

    await run(agent_of([call("add", a=1, b=2), "done"], (HookType.POST_TOOL_USE, hook("p", look))).build())
    assert seen == [3]


async def test_each_type_sees_of_the_moment_what_the_guide_says() -> None:
    seen: dict[str, set[str]] = {}

    def look(state: HookState) -> HookState:
        moment = state.current_execution
        named = {name for name in dir(moment) if not name.startswith("_")}
        seen.setdefault("names", set()).update(named)
        seen.setdefault(state.hook_type, set()).update(name for name in named if getattr(moment, name) is not None)
        return state

    agent = agent_of([call("fail"), "done"]).with_error_policy(ErrorPolicy.retry_all())
    for hook_type in HookType:
        agent.with_hook(hook_type, CallableHook(look))
    await run(agent.build())
    always = {"execution_id", "step_number"}
    reply, a_call = {"inference_response"}, {"tool_call"}
    assert seen == {
        "names": always | reply | a_call | {"tool_execution", "error"},
        "execution_start": always,
        "before_step": always,
        "before_inference": always,
        "after_inference": always | reply,
        "pre_tool_use": always | reply | a_call,
        "post_tool_use": always | reply | a_call | {"tool_execution"},
        "after_step": always | {"error"},
        "on_error": always | {"error"},
        "stop": always,
        "execution_end": always,
    }
