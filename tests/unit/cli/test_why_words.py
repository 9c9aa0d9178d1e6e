"""What `why` and `show` say of an error, of who paused, of a wait, of a crash, and for which run their advice is."""

import asyncio
import sys
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Limits, Steptrail, tool
from steptrail.domain.agent.events import StepCompleted
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.kernel.standing import Wait
from steptrail.domain.usage import Usage
from steptrail.errors import ErrorPolicy
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.agent_state import print_agent_state
from steptrail.interfaces.cli.agent_why import print_agent_why
from steptrail.interfaces.cli.output import Output
from steptrail.projections.rendering import crash_text, error_lines, lasting, since_text, wait_texts
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call, say
from steptrail.tools import ApprovalRule
from steptrail.workflow import Envelope, Update, Workflow
from tests.runner.kit import Crash, crash_at
from tests.unit.cli.command import Type

AT = 1_795_000_000_000_000


class Refused(Exception):
    status_code = 401
    code = "invalid_api_key"


@tool
def ask() -> str:
    """Ask."""
    try:
        raise ConnectionError("cut off")
    except ConnectionError as error:
        raise KeyError("missing") from error


@tool(approval=ApprovalRule(reason="it moves money"))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def builder(*replies: Reply) -> AgentBuilder:
    return AgentBuilder("a").with_model(ScriptedModel(list(replies))).with_tools(ask, pay)


def ran(agent: AgentBuilder, session: str = "s") -> None:
    with Steptrail.open_sync() as trail:
        trail.run(agent.build(), "go", session=session)


def failing(seen: Envelope) -> Update:
    raise KeyError("missing")


def test_all_that_is_known_of_an_error_is_told() -> None:
    error = ErrorInfo(
        type=ErrorType.MODEL,
        error_class="openai:AuthenticationError",
        message="bad key",
        causes=("openai:AuthenticationError: bad key", "httpx:HTTPStatusError: 401"),
        status_code=401,
        code="invalid_api_key",
        retryable=False,
        frames=("desk.py:41 in refund",),
    )
    assert list(error_lines(error, "refund")) == [
        ("error", "AuthenticationError: bad key, in tool refund"),
        ("at", "desk.py:41 in refund"),
        ("type", "model error, status code 401, code invalid_api_key; it comes again every time"),
        ("caused by", "httpx:HTTPStatusError: 401"),
    ]
    plain = ErrorInfo(type=ErrorType.TIMEOUT, error_class="builtins:TimeoutError", message="")
    assert list(error_lines(plain)) == [("error", "TimeoutError"), ("type", "timeout error")]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (7200, "2 h"),
        (86_400, "1 day"),
        (3e6, "34 days"),
    ],
)
def test_a_duration_is_told_in_its_largest_unit(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


def test_a_wait_says_since_when_and_until_when_and_one_that_was_answered_says_nothing() -> None:
    waits = [
        Wait(id="1", kind="retry", since=AT, due_at=AT + 60_000_000, asked_at_version=3),
        Wait(id="2", kind="child", since=AT, asked_at_version=3),
        Wait(id="3", kind="approval", since=AT, asked_at_version=3, answered_at=AT),
    ]
    assert list(wait_texts(waits, AT + 10_000_000)) == [
        "retry, since 2026-11-18 11:06:40 UTC, 10 s, until 2026-11-18 11:07:40 UTC",
        "child, since 2026-11-18 11:06:40 UTC, 10 s",
    ]
    # The clock of a reader may be behind.
    assert since_text(AT, AT - 5) == "since 2026-11-18 11:06:40 UTC, 0 s"


def test_a_crash_names_the_worker_and_a_few_of_the_calls() -> None:
    assert crash_text("vm:12", ["step 2"]) == "on vm:12, in step 2"
    assert crash_text("", list("abcdefg")) == "on an unknown worker, in a, b, c, d, e and 2 more"


@pytest.mark.acceptance("8.5-1")
def test_why_and_show_name_the_error_with_its_chain(typed: Type) -> None:
    ran(builder(call("ask")))
    why = typed("why", "s").lines
    assert "error       KeyError: 'missing', in tool ask" in why
    assert "type        tool error" in why
    assert "caused by   builtins:ConnectionError: cut off" in why
    show = typed("show", "s").lines
    assert show[show.index("last error") + 1] == "  error     KeyError: 'missing', in tool ask"
    assert show[-1] == "  caused by builtins:ConnectionError: cut off"
    assert typed("show", "s", "--json").json["lastError"]["class"] == "builtins:KeyError"


def test_a_status_code_of_a_provider_is_told(typed: Type) -> None:
    ran(builder(Refused("no such key")))
    assert any(
        line.startswith("type        model error, status code 401, code invalid_api_key")
        for line in typed("why", "s").lines
    )
    assert typed("why", "s", "--json").json["error"]["statusCode"] == 401


def test_show_ends_with_the_error_of_a_run_that_went_on_after_it(typed: Type) -> None:
    ran(builder(call("ask"), "done").with_error_policy(ErrorPolicy.retry_tool_errors(3)))
    assert "last error" in typed("show", "s").lines
    ran(builder("well"), "t")
    assert "last error" not in typed("show", "t").lines


@pytest.mark.acceptance("8.5-3")
def test_an_open_question_says_since_when_and_until_when_it_waits(typed: Type) -> None:
    ran(builder(call("pay", cents=5)))
    (line,) = [line for line in typed("why", "s").lines if line.startswith("waits       ")]
    assert line.startswith("waits       approval, since ")
    assert ", until " in line
    (wait,) = typed("why", "s", "--json").json["waits"]
    assert wait["kind"] == "approval"


def test_tokens_are_counted_in_the_words_of_other_things(typed: Type) -> None:
    ran(builder(say("Done.", usage=Usage(input=11_999, output=1))))
    for command in (["show", "s"], ["why", "s"], ["show", "s", "--events"]):
        lines = typed(*command).lines
        assert [line for line in lines if "12,000 tokens, " in line], command
        assert [line for line in lines if "12000 tokens" in line] == []


def test_show_lists_the_execution_that_is_open(typed: Type) -> None:
    ran(builder(call("pay", cents=5)))
    lines = typed("show", "s").lines
    assert lines[lines.index("executions") + 2].split() == ["s:1", "waiting"]
    open_one = {"executionId": "s:1", "status": "waiting", "stopReason": None, "answered": False}
    assert typed("show", "s", "--json").json["executions"] == [open_one]


def test_show_lists_the_execution_of_a_fork_by_its_own_name(typed: Type) -> None:
    ran(builder(call("ask"), "Done."), "source")
    with Steptrail.open_sync() as trail:
        source = trail.session("source")
        ends = [record.version for record in source.events() if isinstance(record.event, StepCompleted)]
        source.fork(at=ends[0], session="fork")
    assert [each["executionId"] for each in typed("show", "fork", "--json").json["executions"]] == ["fork:1"]


@pytest.mark.acceptance("8.5-2")
def test_who_paused_why_and_since_when_is_told(typed: Type) -> None:
    ran(builder(call("pay", cents=5)))
    typed("pause", "s", "--by", "me", "--reason", "lunch")
    for command in ("why", "show"):
        (line,) = [line for line in typed(command, "s").lines if line.startswith("paused ")]
        assert " by me: lunch, since 20" in line
    typed("unpause", "s", "--by", "ben")
    for command in ("why", "show"):
        (line,) = [line for line in typed(command, "s").lines if line.startswith("unpaused ")]
        assert " by ben, since 20" in line


async def test_a_pause_and_a_stop_that_have_not_come_about_are_told_as_what_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        told, shown = list[str](), list[str]()

        async def tell() -> None:
            print_agent_why(Output(sys.stdout, sys.stderr), await trail.session("s").why(), None)
            told.append(capsys.readouterr().out)
            print_agent_state(Output(sys.stdout, sys.stderr), await trail.session("s").state(), [])
            shown.append(capsys.readouterr().out)

        @tool
        async def hold() -> str:
            """Have somebody pause the run, and then stop it."""
            await trail.session("s").pause(by="me", reason="lunch")
            await tell()
            await trail.session("s").stop(by="ops")
            await tell()
            return "held"

        agent = AgentBuilder("a").with_model(ScriptedModel([call("hold"), "done"])).with_tools(hold).build()
        await trail.run(agent, "go", session="s")
        await tell()
    assert "\npause asked by me: lunch, since 20" in told[0]
    assert "\npause asked by me: lunch, since 20" in shown[0]
    assert "\nstop asked  by ops, since 20" in told[1]
    assert "\nstopped     by ops, since 20" in told[2]
    assert "\nstop asked by ops, since 20" in shown[1]
    assert "\nstopped  by ops, since 20" in shown[2]


@pytest.mark.acceptance("8.5-4")
async def test_a_crash_is_told_with_its_worker_and_its_place(typed: Type, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/steptrail.db"
    dying = Environment(store=open_store(store), worker="vm:12", reach=crash_at("after-tool"))
    async with Steptrail(dying) as trail:
        with pytest.raises(Crash):
            await trail.run(builder(call("ask")).build(), "go", session="s")
    told = await asyncio.to_thread(lambda: (typed("why", "s").lines, typed("why", "s", "--json").json))
    assert "crashed     on vm:12, in step 1: tool ask (s:1:1:0)" in told[0]
    assert (told[1]["worker"], told[1]["crash"]) == ("vm:12", "on vm:12, in step 1: tool ask (s:1:1:0)")


@pytest.mark.acceptance("8.5-5")
def test_advice_says_for_which_run_it_is(typed: Type) -> None:
    ran(builder(call("ask")).with_limits(Limits(max_steps=1)))
    why = typed("why", "s").lines
    place = next(at for at, line in enumerate(why) if line.startswith("next  "))
    assert why[place + 1] == "            which lets this run go on"
    assert "            which is set in the code of the agent: no option of a command sets it" in why
    assert typed("why", "s", "--json").json["nextIsFor"] == "this run"
    ran(builder("well"), "t")
    why = typed("why", "t").lines
    assert "            which begins the next run: this one stays as it is" in why
    assert typed("why", "t", "--json").json["nextIsFor"] == "next run"


def test_a_workflow_tells_the_same(typed: Type) -> None:
    flow = Workflow("w").function("work", failing).build()
    with Steptrail.open_sync() as trail:
        trail.run(flow, {}, session="f")
    why = typed("why", "flow:f").lines
    assert why[1] == "reason      KeyError: 'missing'"
    assert why[2].startswith("at          ")
    assert why[2].endswith(" in failing")
    assert why[3] == "type        tool error"
    assert "            which lets this run go on" in why
    show = typed("show", "flow:f").lines
    assert show[show.index("last error") + 1].startswith("  node      work, ")
    assert show[-1] == "  type      tool error"
    assert typed("show", "flow:f", "--json").json["lastError"]["node_id"] == "work"
