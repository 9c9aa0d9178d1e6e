"""Code of an agent that ends the program, as scripts do that find a setting missing."""

import signal
from pathlib import Path

import pytest

from tests.unit.cli.command import Type

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

AGENTS = """
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from steptrail import AgentBuilder, HookType
from steptrail.continuation import ContinuationDecision
from steptrail.hooks import CallableHook
from steptrail.testing import ScriptedModel
from steptrail.workflow import Workflow


def leave(given):
    if not Path("set").exists():
        sys.exit("SHOP_KEY is not set" if Path("says").exists() else 4)
    return given


class Criterion:
    def decide(self, state):
        return leave(ContinuationDecision.ALLOW)


def scripted(*script):
    return AgentBuilder("shop").with_model(ScriptedModel(script))


criterion = scripted("done").with_criteria(Criterion())
hook = scripted("done").with_hook(HookType.BEFORE_STEP, CallableHook(leave))
model = scripted(lambda request: leave("done"))
node = Workflow("shop", result="out").function("f", lambda envelope: leave("done"), output="out")


@asynccontextmanager
async def entering():
    leave(None)
    yield scripted("done").build()
"""


@pytest.fixture
def shop(typed: Type) -> Type:
    Path("shop.py").write_text(AGENTS, encoding="utf-8")
    return typed


@pytest.mark.parametrize(("makes", "said"), [("says", "SHOP_KEY is not set"), ("", "4")])
@pytest.mark.parametrize("name", ["criterion", "hook", "model", "node", "entering"])
def test_given_code_that_ends_the_program_then_the_command_says_so_and_is_no_success(
    shop: Type, name: str, makes: str, said: str
) -> None:
    if makes:
        Path(makes).touch()
    words = ["run", f"shop.py:{name}", "1", "--id", "s"]
    ended = shop(*words)
    why = f"code that was called ends the program (exit {said}); `steptrail due` lists a run that it cut off"
    assert (ended.code, ended.err) == (2, f"steptrail: {why}\n")
    Path("set").touch()
    if name != "entering":
        (due,) = shop("due", "--json").json
        assert (due["dueBecause"], due["next"].split()[1]) == ("crashed", "resume")
    again = shop(*words)
    assert (again.code, again.lines[-1].strip(chr(34))) == (0, "done")


def test_given_code_that_ends_the_program_in_a_worker_then_that_is_no_ordinary_end(shop: Type) -> None:
    Path("says").touch()
    assert shop("start", "shop.py:hook", "hi", "--id", "s").code == 0
    before = [signal.getsignal(each) for each in SIGNALS]
    worked = shop("work", "shop.py:hook")
    assert worked.code == 2
    assert "(exit SHOP_KEY is not set)" in worked.err
    assert [signal.getsignal(each) for each in SIGNALS] == before
