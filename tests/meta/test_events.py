"""Stored type names are chosen, versioned and never derived from a class."""

import re
from types import ModuleType

import pytest

from steptrail.domain.event import EVENT_TYPES

STORED_NAME = re.compile(r"[a-z_.]+\.v[0-9]+")


@pytest.mark.parametrize("name", ["step.started", "step.Started.v1", "StepStarted", "step.started.v", "v1", ""])
def test_a_name_without_a_version_or_in_capitals_is_refused(name: str) -> None:
    assert not STORED_NAME.fullmatch(name)


def test_every_event_type_has_a_versioned_name(modules: dict[str, ModuleType]) -> None:
    ours = {name for name, event in EVENT_TYPES.items() if event.__module__ in modules}
    assert ours, "no event is registered once every module is imported"
    assert sorted(name for name in ours if not STORED_NAME.fullmatch(name)) == []
