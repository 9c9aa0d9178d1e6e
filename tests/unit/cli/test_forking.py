"""`fork`: another session or run goes on from a past, and `show`, `why` and `tail` tell where it comes from."""

from steptrail import Steptrail
from steptrail.workflow import Workflow
from tests.runner.kit import agent_of
from tests.unit.cli.command import Type


def stored() -> tuple[int, int]:
    """Run a workflow and an agent; return after which events of the workflow something of it had ended."""
    flow = Workflow("sum").function("a", lambda _: 1, output="a").function("b", lambda _: 2, output="b").chain("a", "b")
    with Steptrail.open_sync("sqlite:///steptrail.db") as trail:
        trail.run(flow.build(), session="s")
        trail.run(agent_of(["Done."]).build(), "go", session="agents")
        ended = [each.version for each in trail.flow("s").events() if each.event.TYPE == "node.completed.v1"]
    return ended[0], ended[1]


def test_a_run_is_forked_and_its_fork_told_of(typed: Type) -> None:
    at, _ = stored()
    (line,) = typed("fork", "flow:s", "--at", str(at), "--into", "t", "--by", "ana", "--reason", "another b").lines
    assert line.startswith("flow:t: forked, paused; `steptrail resume ")
    assert typed("fork", "flow:s", "--into", "u", "--json").json["status"] == "completed"
    shown = typed("show", "flow:t", "--json").json
    assert [each["executionId"] for each in shown["executions"]] == ["t:1"]
    assert (shown["nodes"][0]["visits"], shown["forkedFrom"]) == (1, {"session": "s", "version": at})
    assert f"forked   from s, after event {at} of it" in typed("show", "flow:t").lines
    assert typed("show", "flow:s", "--json").json["forkedFrom"] is None
    assert "s after" in typed("show", "flow:t", "--events").out
    assert ": another b" in typed("show", "flow:t", "--events").out
    assert typed("why", "flow:t").lines[0] == "flow:t: paused"
    assert typed("flow", "draw", "t").lines[2:5:2] == ["a  function  ran once", "b  function  not reached"]
    assert typed("doctor").code == 0


def test_a_session_is_forked_and_a_place_where_none_can_be_is_refused(typed: Type) -> None:
    stored()
    assert typed("fork", "agents", "--into", "more").lines[0].startswith("more: forked, completed; `steptrail send ")
    refused = typed("fork", "agents", "--at", "5")
    assert (refused.code, "fork where a step or an execution has ended" in refused.err) == (2, True)
    assert typed("fork", "nobody").code == 2


def test_a_session_is_forked_before_a_message_and_a_workflow_holds_none(typed: Type) -> None:
    stored()
    shown = typed("fork", "agents", "--before", "said:1", "--into", "anew").lines[0]
    assert shown.startswith("anew: forked, pending; `steptrail send ")
    assert "forked   from agents, after event 1 of it" in typed("show", "anew").lines
    assert typed("why", "anew").lines[0] == "anew: not started: no execution yet"
    for refused in (("agents", "--before", "said:2"), ("flow:s", "--before", "said:1")):
        answered = typed("fork", *refused)
        assert (answered.code, "message" in answered.err or "conversation" in answered.err) == (2, True)


def test_executions_of_a_fork_have_the_ids_of_the_fork_before_and_after_they_end(typed: Type) -> None:
    at, _ = stored()
    typed("fork", "flow:s", "--at", str(at), "--into", "t")
    typed("stop", "flow:t")
    typed("fork", "agents", "--into", "more")
    for stream, execution in (("flow:t", "t:1"), ("more", "more:1")):
        assert [each["executionId"] for each in typed("show", stream, "--json").json["executions"]] == [execution]
        assert typed("why", stream, "--execution", "1", "--json").json["executionId"] == execution
