"""Stored type names are chosen, versioned and never derived from a class."""

import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from steptrail.domain.agent.events import AgentEvent, StopRequested
from steptrail.domain.kernel.event import EVENT_TYPES, Event, EventKind

STORED_NAME = re.compile(r"[a-z_.]+\.v[0-9]+")


@pytest.mark.parametrize("name", ["step.started", "step.Started.v1", "StepStarted", "step.started.v", "v1", ""])
def test_a_name_without_a_version_or_in_capitals_is_refused(name: str) -> None:
    assert not STORED_NAME.fullmatch(name)


def test_every_event_type_has_a_versioned_name(modules: dict[str, ModuleType]) -> None:
    ours = {name for name, event in EVENT_TYPES.items() if event.__module__ in modules}
    assert ours, "no event is registered once every module is imported"
    assert sorted(name for name in ours if not STORED_NAME.fullmatch(name)) == []


def test_every_event_type_that_a_page_names_is_one(modules: dict[str, ModuleType], root: Path) -> None:
    named = {
        (page.name, name)
        for page in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]
        for name in re.findall(r"`((?:[a-z_]+\.)+v[0-9]+)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 3, "no page names an event any more"
    assert sorted((page, name) for page, name in named if name not in EVENT_TYPES) == []


def test_an_event_without_a_kind_cannot_be_made() -> None:
    with pytest.raises(TypeError, match=r"the event Kindless \('test\.kindless\.v1'\) says no kind"):

        class Kindless(Event, frozen=True, kw_only=True):  # pyright: ignore[reportUnusedClass]
            TYPE = "test.kindless.v1"

    assert "test.kindless.v1" not in EVENT_TYPES


def test_a_kind_is_said_by_each_event_itself_and_not_handed_down() -> None:
    with pytest.raises(TypeError, match="says no kind"):

        class Heir(StopRequested, frozen=True, kw_only=True):  # pyright: ignore[reportUnusedClass]
            TYPE = "test.heir.v1"


def test_every_event_of_an_agent_says_its_kind() -> None:
    assert {type(event.KIND) for event in get_args(AgentEvent)} == {EventKind}
