"""Where a session stands decides the exit code of whoever ran it."""

import sys
from importlib.machinery import PathFinder

import pytest

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.inference import FinishReason
from steptrail.interfaces.cli.exits import Exit, exit_of
from steptrail.interfaces.cli.program import program
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.testing import Reply, ScriptedModel, say

WAY_IN = "steptrail.interfaces.cli.main"


async def ended(builder: AgentBuilder) -> Exit:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        return exit_of(await trail.run(builder.build(), "hi"))


def agent(*script: Reply) -> AgentBuilder:
    return AgentBuilder("a").with_model(ScriptedModel(script))


@pytest.mark.parametrize(
    ("builder", "code"),
    [
        (agent("hi"), Exit.OK),
        (agent(RuntimeError("gone")), Exit.FAILED),
        (agent(say("hal", finish_reason=FinishReason.LENGTH)), Exit.FAILED),
        (agent("hi").with_max_steps(0), Exit.LIMITED),
        (agent("hi").with_limits(Limits(max_tokens=0)), Exit.LIMITED),
        (agent("hi").with_finish_reasons("stop"), Exit.OK),
        (agent("hi").with_max_steps(1), Exit.OK),
    ],
)
async def test_given_a_run_that_ended_then_its_status_and_reason_are_the_exit_code(
    builder: AgentBuilder, code: Exit
) -> None:
    assert await ended(builder) is code


def test_ctrl_c_while_modules_are_imported_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(PathFinder):
        @classmethod
        def find_spec(cls, fullname: str, path: object = None, target: object = None) -> None:
            if fullname == WAY_IN:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, WAY_IN, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    assert program() == Exit.INTERRUPTED
