"""The spans of golden streams: a tree a run, ids that anybody can work out, errors only where something failed."""

from typing import Any

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    ModelSwitched,
    PauseLifted,
    WaitStarted,
)
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.flow.events import FlowResumed, FlowRetried, NodeOpened
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.prices import PriceTable
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.projections.telemetry.span import Span, SpanKind, SpanLink, span_id, trace_id
from tests.golden import flows, streams
from tests.harness.spans import drawn, hold_together, spans_of
from tests.samples import smallest

NOW = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


def agent(name: str) -> list[Recorded[Any]]:
    return list(streams.read(streams.FOLDER / f"agent-v1-{name}.jsonl"))


def flow(name: str) -> list[Recorded[Any]]:
    return list(flows.read(flows.FOLDER / f"flow-v1-{name}.jsonl"))


def of_agent(name: str) -> tuple[Span, ...]:
    return spans_of("agent:a", agent(name))


def changed(records: list[Recorded[Any]], kind: type[Any], **fields: Any) -> list[Recorded[Any]]:
    return [
        structs.replace(record, event=structs.replace(record.event, **fields))
        if isinstance(record.event, kind)
        else record
        for record in records
    ]


def segments(spans: tuple[Span, ...]) -> list[Span]:
    return [span for span in spans if span.name.startswith("invoke_")]


def test_each_model_call_names_the_model_and_the_provider_that_are_asked() -> None:
    (started,) = [each.event for each in agent("switched") if isinstance(each.event, ExecutionStarted)]
    assert started.agent.fallback is not None
    (second,) = started.agent.fallback.models
    second = structs.replace(second, model=structs.replace(second.model, driver="anthropic"))
    fallback = structs.replace(started.agent.fallback, models=(second,))
    records = changed(agent("switched"), ExecutionStarted, agent=structs.replace(started.agent, fallback=fallback))
    spans = spans_of("agent:a", records)
    names = ("gen_ai.request.model", "gen_ai.provider.name")
    asked = [tuple(span.attributes[name] for name in names) for span in spans if span.name.startswith("chat")]
    assert asked == [("scripted", "scripted")] * 2 + [("second", "anthropic")] * 2
    (switch,) = [each for span in spans for each in span.events if each.name == "steptrail.model.switched"]
    assert switch.attributes == {"gen_ai.request.model": "second", "steptrail.failures": 2}


def test_a_compaction_is_an_event_of_the_segment() -> None:
    spans = spans_of("agent:a", agent("compacted"))
    said = [each for span in spans for each in span.events if each.name == "steptrail.conversation.compacted"]
    assert [each.attributes for each in said] == [
        {"steptrail.step": 2, "steptrail.tokens_before": 90, "steptrail.by": "scripted"},
        {"steptrail.step": 3, "steptrail.tokens_before": 0, "steptrail.by": "scripted"},
    ]


CHEAP, DEAR = (
    Limits(prices=PriceTable.of({"scripted": {"input": usd, "output": usd}}, version=str(usd))) for usd in (1, 1000)
)


@pytest.mark.parametrize(
    ("started", "resumed", "given"), [(CHEAP, None, None), (CHEAP, DEAR, None), (DEAR, None, CHEAP)]
)
def test_a_call_after_a_resume_and_a_switch_is_priced_by_the_limits_of_the_run(
    started: Limits, resumed: Limits | None, given: Limits | None
) -> None:
    records = agent("crashed-and-resumed")
    place = next(place for place, each in enumerate(records) if isinstance(each.event, ExecutionResumed))
    begun = structs.replace(records[1].event.agent, limits=started)
    other = structs.replace(begun, limits=resumed, fingerprint="other") if resumed is not None else None
    going = structs.replace(records[place].event, agent=other, limits=given)
    for at, event in enumerate((going, smallest(ModelSwitched)), place):  # in place of the guards' votes
        records[at] = structs.replace(records[at], event=event)
    spans = spans_of("agent:a", changed(records, ExecutionStarted, agent=begun))
    last = [span for span in spans if span.name.startswith("chat")][-1]
    assert last.attributes["steptrail.cost.usd"] == 0.000015


def test_a_run_of_an_agent_is_a_tree_of_segments_steps_and_tries() -> None:
    spans = of_agent("crashed-and-resumed")
    hold_together(spans)
    assert drawn(spans) == [
        "invoke_agent golden",
        "  step 1",
        "    chat scripted",
        "    execute_tool look",
        "    execute_tool pay",
        "invoke_agent golden",
        "  step 1",
        "    execute_tool pay",
        "    execute_tool look",
        "  step 2",
        "    chat scripted",
    ]
    first, second = segments(spans)
    assert (first.links, second.links) == ((), (SpanLink(first.trace_id, first.span_id),))
    assert first.end <= second.start
    assert {span.trace_id for span in spans} == {first.trace_id}


def test_a_run_of_a_workflow_is_a_tree_of_segments_visits_and_tries() -> None:
    spans = spans_of("flow:f", flow("retried"))
    hold_together(spans)
    assert drawn(spans) == [
        "invoke_workflow retried",
        "  node a",
        "    try a",
        "invoke_workflow retried",
        "  wait unknown_outcome",
        "  node a",
        "invoke_workflow retried !",
        "  node a",
        "  node b",
        "    try b !",
        "invoke_workflow retried",
        "  node b",
        "    try b",
    ]
    failed, again = segments(spans)[2:]
    assert again.links == (SpanLink(failed.trace_id, failed.span_id),)
    assert again.trace_id != failed.trace_id


def test_the_ids_follow_from_the_log_alone() -> None:
    records = agent("completed")
    spans = of_agent("completed")
    (started,) = [record for record in records if isinstance(record.event, ExecutionStarted)]
    assert {span.trace_id for span in spans} == {trace_id("agent:a", started.event.execution_id)}
    assert segments(spans)[0].span_id == span_id("agent:a", f"segment {started.version}")
    assert not {span.span_id for span in spans} & {span.span_id for span in spans_of("agent:b", records)}


def test_the_call_of_a_model_says_the_model_and_what_it_used() -> None:
    chat = next(span for span in of_agent("completed") if span.name.startswith("chat"))
    assert chat.kind is SpanKind.CLIENT
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.request.model"] == "scripted"
    assert isinstance(chat.attributes["gen_ai.usage.input_tokens"], int)
    assert chat.attributes["gen_ai.conversation.id"] == "a"


def test_what_was_decided_is_an_event_of_the_segment() -> None:
    (segment,) = segments(of_agent("completed"))
    last = [event for event in segment.events if event.name == "steptrail.decision"][-1]
    assert last.attributes["steptrail.should_continue"] is False
    assert last.attributes["steptrail.stop_reason"] == segment.attributes["steptrail.stop_reason"] == "completed"


def test_a_failure_names_its_class_and_not_its_message() -> None:
    spans = of_agent("failed")
    failed = {span.name: span.attributes["error.type"] for span in spans if span.is_error}
    assert failed == {"invoke_agent golden": "error", "execute_tool broken": "builtins:RuntimeError"}


@pytest.mark.parametrize("reason", [StopReason.STEPS_LIMIT, StopReason.TOKEN_LIMIT, StopReason.TIME_LIMIT])
def test_a_limit_is_no_error(reason: StopReason) -> None:
    records = changed(agent("completed"), ExecutionFinished, status=ExecutionStatus.FAILED, stop_reason=reason)
    (segment,) = segments(spans_of("agent:a", records))
    assert (segment.is_error, segment.attributes["steptrail.stop_reason"]) == (False, reason.value)


@pytest.mark.parametrize(
    ("said", "links"),
    [
        ({"traceparent": f"00-{NOW}-{CALLER}-01"}, (SpanLink(NOW, CALLER),)),
        ({"traceparent": f"00-{'0' * 32}-{CALLER}-01"}, ()),
        ({"traceparent": "x"}, ()),
        ({"traceparent": 1}, ()),
        ("00", ()),
    ],
)
def test_the_span_of_a_caller_is_a_link(said: JsonValue, links: tuple[SpanLink, ...]) -> None:
    (segment,) = segments(spans_of("agent:a", changed(agent("completed"), ExecutionStarted, context=said)))
    assert segment.links == links
    assert segment.parent_id is None


def test_without_parts_what_is_in_them_stands_in_the_segment() -> None:
    whole, short = of_agent("completed"), spans_of("agent:a", agent("completed"), parts=False)
    assert drawn(short) == [
        "invoke_agent golden",
        "  chat scripted",
        "  execute_tool look",
        "  execute_tool pay",
        "  chat scripted",
    ]
    assert {span.span_id for span in short} < {span.span_id for span in whole}


def test_a_run_that_nobody_took_up_has_a_span_without_length() -> None:
    records = changed(agent("completed"), ExecutionStarted, worker=None)
    ends = [records[0], *(each for each in records if isinstance(each.event, ExecutionStarted | ExecutionFinished))]
    (span,) = spans_of("agent:a", ends)
    assert span.start == span.end
    assert span.attributes["steptrail.status"] == "completed"


def test_a_stream_of_another_kind_has_no_spans() -> None:
    assert spans_of("bell:b", agent("completed")) == ()


def test_a_segment_that_waits_for_a_person_ends_where_the_wait_began_and_not_with_the_answer() -> None:
    records = agent("settled")
    (asked,) = [record.at for record in records if isinstance(record.event, WaitStarted)]
    settled = [place for place, record in enumerate(records) if isinstance(record.event, ExecutionResumed)][-1]
    later = [
        structs.replace(record, at=record.at + 86_400 * 10**6) if place >= settled - 1 else record
        for place, record in enumerate(records)
    ]
    waiting, after = segments(spans_of("agent:a", later))[1:]
    assert waiting.end == asked
    assert after.start > asked + 86_400 * 10**6 - 1


def test_a_call_that_a_crash_cut_off_ends_at_the_last_sign_of_life() -> None:
    records = agent("crashed-and-resumed")
    resumed = next(place for place, record in enumerate(records) if isinstance(record.event, ExecutionResumed))
    spans = spans_of("agent:a", records)
    cut = next(span for span in spans if span.attributes.get("steptrail.status") == "interrupted")
    assert cut.end == segments(spans)[0].end == records[resumed - 1].at < records[resumed].at


END = ExecutionFinished(status=ExecutionStatus.STOPPED, stop_reason=StopReason.USER_REQUESTED, resolved_by="UserStop")


def ended(log: list[Recorded[Any]]) -> Recorded[Any]:
    return Recorded(log[-1].version + 1, log[-1].at + 10**6, END)


def test_a_wait_of_an_agent_ends_with_the_pause_in_it_and_goes_on_after_it() -> None:
    log = agent("settled")
    begun = next(place for place, each in enumerate(log) if isinstance(each.event, WaitStarted)) + 1
    back = next(each.event for each in log if isinstance(each.event, ExecutionResumed))
    events = [each.event for each in log]
    paused = ExecutionPaused(by="ana", step_seconds=0.0)
    later = [*events[:begun], paused, PauseLifted(by="ana"), paused, back, *events[begun:]]
    seconds = [Recorded(at, at * 10**6, event) for at, event in enumerate(later, 1)]
    waits = [span for span in spans_of("agent:a", seconds) if "steptrail.wait" in span.attributes]
    assert [(span.start // 10**6 - begun, span.end // 10**6 - begun) for span in waits] == [(0, 1), (4, 6)]
    assert [span.attributes["steptrail.status"] for span in waits] == ["paused", "settled"]


def test_a_wait_of_a_workflow_ends_with_the_pause_in_it_because_the_run_waits_anew_afterwards() -> None:
    begun = next(place for place, each in enumerate(flow("below")) if isinstance(each.event, WaitStarted)) + 1
    back = next(each.event for each in flow("below") if isinstance(each.event, FlowResumed))
    before = [each.event for each in flow("below")[:begun]]
    later = [ExecutionPaused(by="ana", step_seconds=0.0), back, NodeOpened(node="work", visit=1, number=9), back, END]
    seconds = [Recorded(at, at * 10**6, event) for at, event in enumerate([*before, *later], 1)]
    spans = spans_of("flow:f", seconds)
    (wait,) = (span for span in spans if "steptrail.wait" in span.attributes)
    assert (wait.end, wait.attributes["steptrail.status"]) == ((begun + 1) * 10**6, "paused")
    # Afterwards the run is at work: a process that died in it lived until its last event.
    assert [span.end // 10**6 - begun for span in segments(spans)] == [1, 3, 5]


def test_a_retry_of_a_workflow_for_a_worker_has_no_segment_before_one_begins_with_it() -> None:
    records = changed(flow("retried"), FlowRetried, worker=None)
    retried = next(each for each in records if isinstance(each.event, FlowRetried))
    back = next(each for each in records if isinstance(each.event, FlowResumed))
    taken_up = structs.replace(back, version=retried.version + 1, at=retried.at + 10**6)
    log = [*records[: retried.version], taken_up]
    before = segments(spans_of("flow:f", records[: retried.version - 1]))
    after = segments(spans_of("flow:f", [*log, ended(log)]))
    assert [span.start for span in after] == [*(span.start for span in before), taken_up.at]
