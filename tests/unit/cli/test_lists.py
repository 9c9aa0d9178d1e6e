"""The lists of the command line: filters of `runs`, why something is due, what people are asked and what then."""

import shlex
from datetime import UTC, datetime, timedelta

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.errors import ConfigurationError
from steptrail.interfaces.cli.parser import moment
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ApprovalRule, SubagentTool
from steptrail.workflow import Rule, RunOptions, Workflow
from tests.unit.cli.command import Type, Typed


@tool(approval=ApprovalRule(reason="it moves money"))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def asking(name: str = "asking") -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel([call("pay", cents=5), "settled"])).with_tools(pay)


@pytest.fixture
def stored(typed: Type) -> Type:
    parent = AgentBuilder("desk").with_model(ScriptedModel([call("child", prompt="pay"), "done"]))
    desk = parent.with_tools(SubagentTool(asking("child").build(), description="Ask."))
    with Steptrail.open_sync() as trail:
        trail.run(AgentBuilder("plain").with_model(ScriptedModel(["done"])).build(), "go", session="old")
        trail.run(desk.build(), "go", session="p")
        trail.run(asking().build(), "go", session="s")
    return typed


def ids(done: Typed) -> list[str]:
    return [row["sessionId"] for row in done.json]


@pytest.mark.acceptance("8.5-9")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--waiting-for", "approval"], ["s", "child"]),
        (["--waiting-for", "child"], ["p"]),
        (["--waiting-for", "retry"], []),
        (["--parent", "p"], ["child"]),
        (["--since", "1h", "--agent", "plain"], ["old"]),
        (["--since", "2100-01-01"], []),
        (["--until", "2020-01-01T00:00:00+02:00"], []),
        (["--until", "2100-01-01", "--status", "completed"], ["old"]),
        (["--status", "crashed"], []),
    ],
)
def test_runs_are_filtered_by_what_the_index_knows(stored: Type, words: list[str], found: list[str]) -> None:
    rows = [name if name in {"s", "p", "old"} else "child" for name in ids(stored("runs", "--json", *words))]
    assert rows == found


def test_the_next_page_is_named_with_its_filters_and_can_be_typed(stored: Type) -> None:
    first = stored("runs", "--waiting-for", "approval", "--since", "1h", "--limit", "1")
    assert first.lines[1].startswith("s ")
    words = shlex.split(first.err.partition("`")[2].partition("`")[0])
    assert words[:6] == ["steptrail", "runs", "--waiting-for", "approval", "--since", words[5]]
    second = stored(*words[1:], "--json")
    assert (second.code, len(second.json)) == (0, 1)
    assert second.json[0]["waitsFor"] == "approval"
    assert second.json[0]["waitsUntil"] is not None


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--since", "7"], ["--waiting-for", "godot"]])
def test_a_filter_that_cannot_be_meant_is_refused(stored: Type, words: list[str]) -> None:
    assert stored("runs", *words).code == 2


def test_a_time_is_read_as_ago_or_in_iso_and_is_of_utc() -> None:
    now = datetime.now(UTC)
    for text, ago in (("30min", 1800), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)):
        assert timedelta(0) <= moment(text) - (now - timedelta(seconds=ago)) < timedelta(minutes=1)
    assert moment("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    assert moment("2026-03-01T12:00+02:00") == datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "7", "1y", "-1d", "٣d", "2026-02-31", "999999w", "0001-01-01T00:00+14:00"])
def test_what_is_no_time_is_refused(stored: Type, text: str) -> None:
    done = stored("runs", "--since", text)
    assert (done.code, done.err.count("\n")) == (2, 1)


async def test_in_python_a_time_has_a_zone_and_a_wait_a_known_kind() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError, match="has no time zone"):
            await trail.runs(since=datetime(2026, 3, 1))  # noqa: DTZ001 - that is what is refused
        with pytest.raises(ConfigurationError, match="no run waits for 'godot': there are retry, "):
            await trail.runs(waits_for="godot")


@pytest.mark.acceptance("8.5-10")
def test_due_says_why_and_the_command(stored: Type) -> None:
    assert stored("due", "--json").json == []
    (approval,) = [each["id"] for each in stored("inbox", "--json").json if each["stream"] == "agent:s"]
    stored("approve", "s", approval, "--by", "ana")
    header, row = stored("due").lines
    assert header.split() == ["ID", "AGENT", "STATUS", "DUE", "BECAUSE", "COMMAND"]
    assert row.startswith("s   asking  in_progress  answered ")
    assert row.endswith(" ago  steptrail resume AGENT s")
    (told,) = stored("due", "--json").json
    assert (told["dueBecause"], told["next"], told["crashedOn"]) == ("answered", "steptrail resume AGENT s", None)


def test_due_says_that_what_is_waited_for_has_moved_on(stored: Type) -> None:
    (asked,) = [each for each in stored("inbox", "--json").json if each["agent"] == "child"]
    child = asked["stream"].removeprefix("agent:")
    stored("approve", child, asked["id"], "--by", "ana")
    (row,) = [line for line in stored("due").lines if line.startswith("p ")]
    assert f"  {child} does not rest any more  steptrail resume AGENT p" in row


@pytest.mark.acceptance("8.5-11")
def test_the_inbox_says_what_becomes_of_a_question_that_nobody_answers(typed: Type) -> None:
    def flow(name: str) -> Workflow:
        return Workflow(name)

    human = flow("h").human("review", prompt="Publish?", expires=3600, on_timeout="default", default="yes")
    with Steptrail.open_sync() as trail:
        trail.run(asking().build(), "go", session="s")
        trail.run(human.build(), {}, session="h")
        trail.run(flow("t").tool("pay", pay, args={"cents": 5}).build(), {}, session="t")
    told = {each["stream"]: each["onExpiry"] for each in typed("inbox", "--json").json}
    assert told == {"agent:s": "deny", "flow:h": "default", "flow:t": "fail"}
    out = typed("inbox").out
    assert " UTC: then it is denied, and the call does not run\n" in out
    assert " UTC: then the default is taken as the answer\n" in out
    assert " UTC: then the node fails\n" in out
    assert "steptrail approve s " in out
    assert "steptrail deny s " in out


def test_a_step_that_is_held_stops_the_run_when_nobody_says_how_it_goes_on(typed: Type) -> None:
    flow = Workflow("w").noop("work").build()
    with Steptrail.open_sync() as trail:
        trail.run(flow, {}, session="f", options=RunOptions(pause_before=("work",), step_timeout=3600))
    (asked,) = typed("inbox", "--json").json
    assert (asked["kind"], asked["onExpiry"]) == ("step", "fail_run")


def test_each_command_for_a_held_node_that_chooses_may_be_typed_as_it_stands(typed: Type) -> None:
    flow = Workflow("w").rule_router("r", [Rule("vars.x", to="a")], default="b").noop("a").noop("b").edge("r", "a", "b")
    ways = ["continue", "skip --target a", "skip --target b", "abort"]
    with Steptrail.open_sync() as trail:
        for way in range(len(ways)):
            trail.run(flow.build(), {}, session=f"f{way}", options=RunOptions(pause_before=("r",)))
    asked = typed("inbox", "--json").json
    assert asked[0]["answers"] == [f"steptrail step {asked[0]['stream']} r {way} --by WHO" for way in ways]
    for way, each in enumerate(asked):
        assert typed(*shlex.split(each["answers"][way])[1:]).code == 0


def test_the_inbox_and_what_is_due_say_when_there_is_more(stored: Type) -> None:
    first = stored("inbox", "--limit", "1")
    assert first.lines[0].startswith("s (asking) asks to run pay")
    assert all(line.startswith("  ") for line in first.lines[1:])
    assert first.err == "steptrail: there are more: `steptrail inbox --limit 1 --after s`\n"
    second = stored(*shlex.split(first.err.split("`")[1])[1:])
    child = second.lines[0].split()[0]
    assert (child.startswith("child-"), second.err) == (True, "")
    for name in ("s", child):
        stored("deny", name, f"{name}:1:1:0", "--by", "ana")
    due = stored("due", "--limit", "1")
    assert (len(due.lines), due.err) == (2, "steptrail: these are 1, and there are more: `--limit` shows them\n")
    assert stored("due").err == ""
