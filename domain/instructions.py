"""Instructions that a function of the service writes while a run goes on: when it is asked, and where they stand."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from steptrail.domain.base import Settings
from steptrail.domain.messages import Message


class InstructionsTime(StrEnum):
    """How often the function of instructions is asked for its text."""

    EXECUTION = "execution"
    """Before the first step of each execution."""
    STEP = "step"
    """Before each step."""


class InstructionsPlace(StrEnum):
    """The place of instructions in a request."""

    SYSTEM = "system"
    """In front of the conversation, as a message of the system."""
    TAIL = "tail"
    """Behind the conversation, as a message of the user, so that a provider's cache of the conversation holds on."""


InstructionsTimeName = Literal["execution", "step"]
"""A member of `InstructionsTime`, as text."""
InstructionsPlaceName = Literal["system", "tail"]
"""A member of `InstructionsPlace`, as text."""


class InstructionsSpec(Settings, frozen=True, kw_only=True):
    """Instructions as they are recorded with an agent: the name of the function, when it is asked, and the place."""

    name: str
    every: InstructionsTime
    at: InstructionsPlace


def instructing(
    specs: Sequence[InstructionsSpec], texts: Mapping[str, str]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages in front of the conversation and behind it that show the texts, each none or one."""
    system, tail = (
        [text for spec in specs if spec.at is place and (text := texts.get(spec.name))] for place in InstructionsPlace
    )
    # Bare text would look like the user's own words.
    fenced = [f"<instructions>{text}</instructions>" for text in tail]
    return (
        (Message.system("\n\n".join(system)),) if system else (),
        (Message.user("\n".join(fenced)),) if fenced else (),
    )
