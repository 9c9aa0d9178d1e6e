"""What a step costs: the same however many came before it, and few calls. Counted, so that no clock is asked."""

import asyncio
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import groupby
from math import inf
from pathlib import Path
from types import FrameType

import pytest

from steptrail import AgentBuilder, HookType, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent, StepStarted
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call, calls
from tests.integration.store.kit import note_statements, opened
from tests.runner.kit import HandClock, hook

EARLY, LATE = 10, 500


@tool(effect=ToolEffect.READ)
def look(what: str) -> str:
    """Look at something."""
    return f"found {what}"


def ask(request: ModelRequest) -> ModelReply:
    del request
    return call("look", what="tea")


async def run_long(path: Path, said: list[str]) -> dict[int, list[str]]:
    """Run more steps than are compared, and return the statements that each of them cost."""
    begins: dict[int, int] = {}

    def note(records: Sequence[Recorded[AgentEvent]]) -> None:
        for record in records:
            if isinstance(record.event, StepStarted):
                begins[record.event.number] = len(said)

    script: list[Callable[[ModelRequest], ModelReply]] = [ask] * (LATE + 2)
    builder = AgentBuilder("long").with_model(ScriptedModel(script)).with_tools(look)
    agent = builder.with_max_steps(LATE + 1).with_max_tokens(None).with_timeout(None).build()
    async with Steptrail(Environment(store=opened(path, quick=inf, durability="normal"), clock=HandClock())) as trail:
        await trail.run(agent, "go", session="s", on_commit=note)
    return {number: said[begins[number] : begins[number + 1]] for number in (EARLY, LATE)}


async def test_step_500_costs_the_statements_rows_and_bytes_that_step_10_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, path = list[str](), tmp_path / "runs.db"
    note_statements(monkeypatch, said.append)
    # Nor does it look at the log because a step took long.
    monkeypatch.setattr("steptrail.runtime.kernel.running_effects._QUICK_SECONDS", 3600)
    statements = await run_long(path, said)
    monkeypatch.undo()
    assert verbs(statements[LATE]) == verbs(statements[EARLY])
    assert len(verbs(statements[EARLY])) >= 2
    # A snapshot is larger when there is more to keep, and is kept the more seldom.
    assert sum("snapshots" in statement for statement in said) < LATE / 20

    with closing(sqlite3.connect(path)) as connection:
        rows = list(connection.execute("SELECT type, state FROM stored_events ORDER BY position"))
        step, of_step = 0, list[tuple[int, str, int, int]]()
        for topic, state in rows:
            step += topic == StepStarted.TYPE
            # A number takes a digit more when it is larger; nothing else may grow.
            of_step.append((step, topic, len(re.sub(rb"[0-9a-f]{64}|\d+", b"0", state)), len(state)))
    steps = {number: list(group) for number, group in groupby(of_step, key=lambda row: row[0])}
    early, late = steps[EARLY], steps[LATE]
    assert [row[1:3] for row in late] == [row[1:3] for row in early]
    assert sum(row[3] for row in late) < 1.05 * sum(row[3] for row in early)


def verbs(statements: list[str]) -> list[str]:
    """Return what is done to which table, without the values, but for snapshots."""
    return [" ".join(statement.split()[:3]) for statement in statements if "snapshots" not in statement]


@tool(effect=ToolEffect.READ)
async def see(what: str) -> str:
    """See something."""
    return f"saw {what}"


async def counted(path: Path, *script: ModelReply, hooks: Sequence[HookType] = ()) -> Counter[str]:
    """Run these steps where every disk is quick; return how often functions of Python were called, by name."""
    called: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called[frame.f_code.co_name] += 1

    builder = AgentBuilder("x").with_model(ScriptedModel([*script, "done"])).with_tools(see)
    for each in hooks:
        builder = builder.with_hook(each, hook("nothing", lambda _: None))
    agent = builder.with_max_steps(len(script) + 1).with_max_tokens(None).with_timeout(3600).build()
    async with Steptrail(Environment(store=opened(path, quick=inf, durability="normal"))) as trail:
        sys.setprofile(note)
        try:
            await trail.run(agent, "go", session="s")
        finally:
            sys.setprofile(None)
    return called


def test_a_step_takes_two_tasks_four_turns_of_the_loop_no_timer_and_740_calls(tmp_path: Path) -> None:
    few, many = 20, 70
    step = call("see", what="tea")
    short = asyncio.run(counted(tmp_path / "short.db", *[step] * few))
    calls = asyncio.run(counted(tmp_path / "long.db", *[step] * many))
    calls.subtract(short)
    steps = many - few
    assert calls["create_task"] <= 2.5 * steps
    assert calls["_run_once"] <= 4.5 * steps
    assert calls["call_at"] <= 0.5 * steps
    assert calls.total() <= 740 * steps, calls.total() / steps


@pytest.mark.parametrize("hooked", [False, True])
def test_a_call_costs_the_same_however_many_others_the_reply_has(tmp_path: Path, hooked: bool) -> None:
    hooks = [HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE] if hooked else []
    # The first pays for what is imported when it is used.
    _, few, some, many = (
        asyncio.run(counted(tmp_path / f"{count}.db", calls(*[("see", {"what": "tea"})] * count), hooks=hooks)).total()
        for count in (10, 100, 200, 400)
    )
    assert many - some <= 2.1 * (some - few)
