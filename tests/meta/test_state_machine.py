"""The page of the state machine says what the code runs on, and notices when it does not."""

import importlib.util
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import ModuleType

import pytest

from steptrail.domain.agent import phases
from steptrail.domain.agent.events import StepStarted, StopRequested
from steptrail.domain.agent.evolve import HANDLERS
from steptrail.domain.agent.phases import TRANSITIONS, Phase
from steptrail.domain.flow import phases as flow_phases, task
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.event import EVENT_TYPES


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    path = root / "scripts" / "state_machine.py"
    spec = importlib.util.spec_from_file_location("state_machine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stored(root: Path) -> str:
    return (root / "docs" / "state-machine.md").read_text(encoding="utf-8")


def test_the_page_is_fresh(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert (script.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_another_transition_makes_the_page_stale(
    script: ModuleType, stored: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.page() == stored
    more = {**TRANSITIONS, Phase.IDLE: {**TRANSITIONS[Phase.IDLE], StopRequested: Phase.STOPPING}}
    monkeypatch.setattr(phases, "TRANSITIONS", more)
    assert script.main(["--check"]) == 1
    assert "docs/state-machine.md is stale" in capsys.readouterr().err
    assert "| `idle` | `stop.requested.v1` | stopping |" in script.page()
    assert "idle --> stopping: stop.requested.v1" in script.page()


def test_a_transition_less_makes_the_page_stale(
    script: ModuleType, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = {key: target for key, target in TRANSITIONS[Phase.CONTINUING].items() if key is not StepStarted}
    monkeypatch.setattr(phases, "TRANSITIONS", {**TRANSITIONS, Phase.CONTINUING: fewer})
    assert script.page() != stored


def test_a_page_is_not_checked_by_what_it_was_not_asked_for(script: ModuleType) -> None:
    assert script.main(["--chekc"]) == 2


def test_every_phase_is_on_the_page_and_in_the_table(script: ModuleType, stored: str) -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert set(script.meanings("Phase")) == {phase.name for phase in Phase}
    for phase in Phase:
        assert f"| `{phase.value}` | {script.meanings('Phase')[phase.name]} |" in stored


def test_every_event_has_a_handler_and_a_line_with_its_fields(script: ModuleType, stored: str) -> None:
    assert set(script.events()) == set(HANDLERS)
    assert {
        event
        for event in EVENT_TYPES.values()
        if ".domain.agent." in event.__module__ or ".domain.shared." in event.__module__
    } == set(HANDLERS)
    for event in HANDLERS:
        (line,) = [line for line in stored.splitlines() if line.startswith(f"| `{event.TYPE}` |")]
        assert [name for name in event.__struct_fields__ if f"`{name}`" not in line] == []


@pytest.mark.parametrize(
    ("module", "name", "table"),
    [(flow_phases, "RunPhase", flow_phases.TRANSITIONS), (task, "TaskPhase", flow_phases.TASK_TRANSITIONS)],
)
def test_every_phase_of_a_workflow_is_on_the_page_and_in_its_table(
    script: ModuleType, stored: str, module: ModuleType, name: str, table: Mapping[StrEnum, object]
) -> None:
    said = script.meanings(name, module)
    assert [phase.name for phase in table] == [*said]
    for phase in table:
        assert f"| `{phase.value}` | {said[phase.name]} |" in stored


def test_every_event_of_a_workflow_has_a_line_with_its_fields(script: ModuleType, stored: str) -> None:
    own = {event for event in EVENT_TYPES.values() if ".domain.flow." in event.__module__}
    assert set(script.events_of_flows()) == own
    for event in own:
        (line,) = [line for line in stored.splitlines() if line.startswith(f"| `{event.TYPE}` |")]
        assert [name for name in event.__struct_fields__ if f"`{name}`" not in line] == []


def test_another_transition_of_a_task_makes_the_page_stale(
    script: ModuleType, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = {**flow_phases.TASK_TRANSITIONS[TaskPhase.DUE], StopRequested: TaskPhase.PARKED}
    monkeypatch.setattr(flow_phases, "TASK_TRANSITIONS", {**flow_phases.TASK_TRANSITIONS, TaskPhase.DUE: due})
    assert script.page() != stored
    assert "| `due` | `stop.requested.v1` | parked |" in script.page()


def test_every_phase_can_be_reached_and_left() -> None:
    reached = {target for targets in TRANSITIONS.values() for target in targets.values()}
    assert {phase for phase in Phase if phase not in reached} == {Phase.ABSENT}
    assert all(TRANSITIONS[phase] for phase in Phase)
