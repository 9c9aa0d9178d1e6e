"""What `why` says to do next is typed as it stands, and works."""

import asyncio
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.agent.events import WaitStarted
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.shared.events import WaitKind
from steptrail.domain.tools import OnUnknown, ToolSpec
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.going_on import GivenWords, how_to_go_on, store_given
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots
from steptrail.testing import ScriptedModel, call
from steptrail.testing.scenario import SECOND, START, given
from tests.harness.hands import change_by_hand
from tests.unit.agent.story import agent, asked, cut_off, opened, running, step, wants
from tests.unit.cli.command import Type

AGENTS = """
import os
from pathlib import Path

from steptrail import AgentBuilder, ErrorPolicy, HookType, OnUnknown, ToolEffect, tool
from steptrail.continuation import CallableCriterion
from steptrail.errors import Backoff
from steptrail.hooks import CallableHook
from steptrail.models import PriceTable
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import ApprovalRule, SubagentTool


@tool(effect=ToolEffect.READ)
def first() -> str:
    return "one"


@tool(effect=ToolEffect.READ)
def repaired() -> str:
    if not Path("repaired").exists():
        raise KeyError("missing")
    return "whole"


@tool(effect=ToolEffect.READ)
def deadly() -> str:
    if not Path("died").exists():
        Path("died").touch()
        os._exit(9)
    return "alive"


@tool(effect=ToolEffect.READ)
def deadly_twice() -> str:
    for time in ("first", "second"):
        if not Path(time).exists():
            Path(time).touch()
            os._exit(9)
    return "alive"


@tool(timeout=0.01, on_unknown=OnUnknown.PARK)
async def wire(amount: int) -> str:
    import asyncio

    await asyncio.sleep(60)
    return "sent"


@tool(approval=ApprovalRule(reason="moves money"))
def pay(cents: int) -> str:
    return f"paid {cents}"


def scripted(name, *script):
    tools = (first, repaired, deadly, deadly_twice, wire, pay)
    return AgentBuilder(name).with_model(ScriptedModel(script)).with_tools(*tools)


def wrong_key(request):
    if not Path("repaired").exists():
        from steptrail.errors import ConfigurationError

        raise ConfigurationError("needs an API key: set SHOP_KEY")
    return "with a key"


def guard(state):
    if not Path("repaired").exists():
        raise PermissionError("not yet")
    return state


PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
WORK = (call("first"), call("first"), "the answer")

agent = scripted("whole", "the answer", "and more")
steps = scripted("steps", *WORK).with_max_steps(2)
tokens = scripted("tokens", *WORK).with_max_tokens(30)
read = scripted("read", *WORK).with_max_input_tokens(20)
written = scripted("written", *WORK).with_max_output_tokens(10)
calls = scripted("calls", *WORK).with_max_tool_calls(1)
cost = scripted("cost", *WORK).with_max_cost("0.00004", prices=PRICES)
both = scripted("both", *WORK).with_max_steps(2).with_max_tokens(30)
tool_fails = scripted("tool-fails", call("repaired"), call("repaired"), "the answer")
model_fails = scripted("model-fails", wrong_key, wrong_key)
hook_fails = scripted("hook-fails", "the answer").with_hook(HookType.BEFORE_STEP, CallableHook(guard))
cut = scripted("cut", say("hal", finish_reason="length"), "the answer")
stopped = scripted("stopped", call("pay", cents=5), "the answer")
asking = scripted("asking", call("pay", cents=5), "the answer")
parked = scripted("parked", call("wire", amount=5), "the answer")
dies = scripted("dies", call("deadly"), "the answer")
loops = scripted("loops", call("deadly_twice"), "the answer").with_max_unproductive_segments(1)
desk = scripted("desk", call("asking", prompt="pay"), "the answer").with_tools(
    SubagentTool(asking.build(), description="Ask.")
)
"""


@pytest.fixture
def typed(typed: Type, tmp_path: Path) -> Type:
    """The command line beside a file of agents."""
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return typed


def advice(typed: Type, session: str = "s") -> list[str]:
    """What `why` says to type next, without the name of the program."""
    program, *words = shlex.split(typed("why", session, "--json").json["next"])
    assert program == "steptrail"
    return words


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("steps", "retry agents.py:steps s --max-steps 3"),
        ("tokens", "retry agents.py:tokens s --max-tokens 31"),
        ("read", "retry agents.py:read s --max-input-tokens 21"),
        ("written", "retry agents.py:written s --max-output-tokens 11"),
        ("calls", "retry agents.py:calls s --max-tool-calls 2"),
        ("cost", "retry agents.py:cost s --max-cost 0.000041"),
        ("both", "retry agents.py:both s --max-steps 3 --max-tokens 31"),
        ("cut", "retry agents.py:cut s"),
    ],
)
def test_a_run_that_a_limit_stopped_goes_on_to_its_answer(typed: Type, name: str, command: str) -> None:
    assert typed("run", f"agents.py:{name}", "hi", "--id", "s").code in {1, 3}
    assert f"next        `steptrail {command}`" in typed("why", "s").out
    words = advice(typed)
    assert words == command.split()
    done = typed(*words)
    assert (done.code, done.out.splitlines()[-1]) == (0, "the answer")
    assert advice(typed) == ["send", f"agents.py:{name}", "s", "TEXT"]


@pytest.mark.parametrize("name", ["tool_fails", "model_fails", "hook_fails"])
def test_a_run_that_failed_goes_on_when_the_cause_is_put_right(typed: Type, name: str) -> None:
    assert typed("run", f"agents.py:{name}", "hi", "--id", "s").code == 1
    words = advice(typed)
    assert words == ["retry", f"agents.py:{name}", "s"]
    Path("repaired").touch()
    assert typed(*words).code == 0


def test_a_run_that_is_over_is_asked_something_else(typed: Type) -> None:
    typed("run", "agents.py", "hi", "--id", "s")
    done = typed(*advice(typed))
    assert (done.code, done.out.splitlines()[-1]) == (0, "and more")


def test_what_a_person_is_asked_is_answered_and_then_gone_on_with(typed: Type) -> None:
    assert typed("run", "agents.py:asking", "hi", "--id", "s").code == 4
    answer = advice(typed)
    assert (answer[:2], answer[3:]) == (["approve", "s"], ["--by", "WHO"])
    assert typed(*answer).code == 0
    assert typed(*advice(typed)).code == 0


def test_a_call_whose_outcome_nobody_knows_is_settled_and_then_gone_on_with(typed: Type) -> None:
    assert typed("run", "agents.py:parked", "hi", "--id", "s").code == 4
    assert advice(typed) == ["settle", "s", "s:1:1:0", "--tell"]
    assert typed(*advice(typed)).code == 0
    assert typed(*advice(typed)).code == 0


def test_what_a_person_paused_goes_on_and_what_a_person_stopped_is_taken_up_again(typed: Type) -> None:
    typed("run", "agents.py:stopped", "hi", "--id", "s")
    typed("pause", "s", "--by", "me", "--reason", "lunch")
    why = typed("why", "s").out
    assert "paused      by me: lunch" in why
    assert advice(typed)[0] in {"resume", "approve"}
    typed("stop", "s", "--by", "ops", "--reason", "wrong customer")
    assert "stopped     by ops: wrong customer" in typed("why", "s").out
    words = advice(typed)
    assert words == ["retry", "agents.py:stopped", "s"]
    assert typed(*words).code == 0


@pytest.mark.slow("starts a process that dies")
def test_a_crashed_run_is_said_to_be_crashed_and_goes_on(typed: Type) -> None:
    argv = [sys.executable, "-m", "steptrail", "run", "agents.py:dies", "hi", "--id", "s"]
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 9
    why = typed("why", "s", "--json").json
    assert (why["status"], why["crashed"]) == ("in_progress", True)
    assert "in_progress, crashed" in typed("why", "s").out
    assert advice(typed) == ["resume", "agents.py:dies", "s"]
    assert typed(*advice(typed)).code == 0
    assert typed("why", "s", "--json").json["crashed"] is False


@pytest.mark.slow("starts processes that die")
def test_a_run_that_keeps_crashing_goes_on_when_it_is_granted_more_segments(typed: Type) -> None:
    for words in (["run", "agents.py:loops", "hi", "--id", "s"], ["resume", "agents.py:loops", "s"]):
        argv = [sys.executable, "-m", "steptrail", *words]
        assert subprocess.run(argv, check=False, capture_output=True).returncode == 9
    assert typed("resume", "agents.py:loops", "s").code == 3
    words = advice(typed)
    assert words == ["retry", "agents.py:loops", "s", "--max-unproductive-segments", "2"]
    assert typed(*words).code == 0


def test_who_waits_for_another_session_is_sent_there(typed: Type) -> None:
    assert typed("run", "agents.py:desk", "hi", "--id", "s").code == 4
    command, child = advice(typed)
    assert (command, typed(command, child).code) == ("why", 0)
    assert typed(*advice(typed, child)).code == 0
    assert typed("resume", "agents.py:desk", "s").code == 0


def test_the_store_that_was_named_is_named_again(typed: Type) -> None:
    typed("run", "agents.py:steps", "hi", "--id", "s", "--store", "sqlite:///other.db")
    words = shlex.split(typed("--store", "sqlite:///other.db", "why", "s", "--json").json["next"])
    assert words[-2:] == ["--store", "sqlite:///other.db"]
    assert typed(*words[1:]).code == 0


@pytest.mark.parametrize("folder", ["it's mine", "two  blanks", "family \U0001f468\u200d\U0001f469", "tab\tand\nline"])
def test_a_command_that_is_printed_names_the_same_store_when_it_is_pasted_into_a_shell(
    typed: Type, folder: str
) -> None:
    Path(folder).mkdir()
    store = f"sqlite:///{folder}/runs.db"
    typed("run", "agents.py:steps", "hi", "--id", "s", "--store", store)
    (printed,) = (line for line in typed("why", "s", "--store", store).lines if line.startswith("next "))
    arguments = printed.partition("`steptrail ")[2].rstrip("`")
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {arguments}"], check=True, capture_output=True, text=True)
    words = read.stdout.rstrip("\0").split("\0")
    assert words[-1] == store
    assert typed(*words).code == 0


@pytest.mark.parametrize(
    ("store", "named"),
    [
        (None, None),
        ("sqlite:///runs.db", "sqlite:///runs.db"),
        ("postgresql://ana@db.example.com:5432/runs", "postgresql://ana@db.example.com:5432/runs"),
        ("postgresql://ana:s3cr3t@db.example.com/runs", "URL"),
        ("postgresql://db.example.com/runs?password=s3cr3t", "URL"),
    ],
)
def test_a_password_in_the_address_of_the_store_is_not_repeated(store: str | None, named: str | None) -> None:
    given = Namespace() if store is None else Namespace(store=store)
    assert store_given(given) == named


def test_an_id_that_begins_with_a_dash_can_be_typed_too(typed: Type) -> None:
    typed("run", "agents.py:steps", "hi", "--id=-s")
    words = shlex.split(typed("why", "--json", "--", "-s").json["next"])
    assert typed(*words[1:]).code == 0


def test_where_the_agent_is_unknown_it_says_what_agent_stands_for(typed: Type) -> None:
    with Steptrail.open_sync() as trail:
        builder = AgentBuilder("steps").with_model(ScriptedModel([call("no-such-tool")])).with_max_steps(1)
        trail.run(builder.build(), "hi", session="s")
    out = typed("why", "s").out
    assert "next        `steptrail retry AGENT s --max-steps 2`" in out
    assert "AGENT is where agent 'steps' is, which was run from Python: FILE.py[:NAME] or package.module[:NAME]" in out
    words = [word if word != "AGENT" else "agents.py:steps" for word in advice(typed)]
    assert typed(*words).code in {0, 3}


def test_the_error_itself_is_told_by_every_command_that_tells_of_a_run(typed: Type) -> None:
    run = typed("run", "agents.py:tool_fails", "hi", "--id", "s")
    said, place = "KeyError: 'missing'", "agents.py:22 in repaired"
    assert f" s (tool): {said} ({place})" in run.out
    assert f"error    {said} ({place})" in run.out
    why = typed("why", "s").out
    assert f"error       {said}, in tool repaired\nat          {place}\n" in why
    show = typed("show", "s").out
    ending = [f"  error     {said}, in tool repaired", f"  at        {place}", "  type      tool error"]
    assert show.splitlines()[-3:] == ending
    for words in (["why", "s"], ["show", "s"], ["run", "agents.py:tool_fails", "hi", "--id", "s"]):
        error = typed(*words, "--json").json["error"]
        assert (error["class"], error["message"], error["place"]) == ("builtins:KeyError", "'missing'", place)
    assert f"tool error: {said} ({place})" in typed("tail", "s").out


def test_with_a_log_the_traceback_stands_beside_the_answer(typed: Type) -> None:
    done = typed("run", "agents.py:tool_fails", "hi", "--id", "s", "--log", "warning")
    assert 'raise KeyError("missing")' in done.err
    assert "Traceback" not in done.out
    assert "raise KeyError" not in typed("run", "agents.py:tool_fails", "hi", "--id", "t").err


def test_the_version_is_told(typed: Type) -> None:
    done = typed("--version")
    assert done.code == 0
    assert done.out.startswith("steptrail 0.")


def test_a_damaged_session_is_explained_up_to_its_damage(typed: Type) -> None:

    typed("run", "agents.py:steps", "hi", "--id", "s")
    change_by_hand(Path("steptrail.db"), "UPDATE stored_events SET state = 'xx' WHERE version = 8")
    why = typed("why", "s", "--json")
    assert why.code == 0
    assert why.json["status"] == "in_progress"
    assert "record 8 " in why.json["damage"]
    assert why.json["crashed"] is False
    assert "; damaged: so it stood after event 7, and record 8 " in typed("why", "s").out


def test_a_session_with_a_commit_that_lays_claim_to_more_is_explained_up_to_the_end_of_that(typed: Type) -> None:
    typed("run", "agents.py:steps", "hi", "--id", "s")
    change_by_hand(Path("steptrail.db"), "UPDATE commits SET size = size + 2 WHERE version = 1")
    why = typed("why", "s", "--json")
    assert why.code == 0
    assert "lays claim to it" in why.json["damage"]


def test_given_a_snapshot_then_a_session_is_shown_from_it_and_its_damage_is_told_by_why(typed: Type) -> None:
    typed("run", "agents.py:steps", "hi", "--id", "s")
    shown = typed("show", "s").out

    async def keep() -> None:
        store = open_store("sqlite:///steptrail.db")
        state, head = await fold_stream(AGENT, store, "agent:s")
        await Snapshots(AGENT, store, "agent:s").keep(state, head)
        await store.close()

    asyncio.run(keep())
    change_by_hand(Path("steptrail.db"), "UPDATE stored_events SET state = 'xx' WHERE version = 8")
    assert typed("show", "s").out == shown
    assert "; damaged: so it stood after event 7, and record 8 " in typed("why", "s").out
    assert typed("show", "s", "--at", "9").code == 2


@pytest.mark.parametrize(
    ("kind", "position", "command"), [("tool_retry", 1, "resume"), ("unknown_outcome", 0, "settle")]
)
def test_a_verdict_is_advised_only_where_the_run_asks_for_one(kind: WaitKind, position: int, command: str) -> None:
    pays = ToolSpec(name="pay", on_unknown=OnUnknown.PARK, concurrent=True)
    both = given(*opened(agent(pays)), *step(), asked(), wants("pay", "pay"), running(0, "pay"), running(1, "pay"))
    waits = WaitStarted(kind=kind, position=position, until=START + 1000 * SECOND)
    state = both.and_(cut_off(0, Then.PARK), waits).state
    assert how_to_go_on(state, GivenWords()).command.split()[1] == command
