"""Task 1.1: asking a message for its role."""

from collections.abc import Callable

import pytest

from steptrail import Message
from steptrail.messages import MessageRole

USER, ASSISTANT, TOOL, SYSTEM, DEVELOPER = MessageRole
MESSAGES = {role: Message(role=role) for role in MessageRole}


def roles_where(asked: Callable[[Message], bool]) -> set[MessageRole]:
    return {role for role, message in MESSAGES.items() if asked(message)}


@pytest.mark.acceptance("1.1-1")
def test_is_user() -> None:
    assert roles_where(Message.is_user) == {USER}


@pytest.mark.acceptance("1.1-2")
def test_is_assistant() -> None:
    assert roles_where(Message.is_assistant) == {ASSISTANT}


@pytest.mark.acceptance("1.1-3")
def test_is_tool() -> None:
    assert roles_where(Message.is_tool) == {TOOL}


@pytest.mark.acceptance("1.1-4")
def test_is_system_covers_the_developer() -> None:
    assert roles_where(Message.is_system) == {SYSTEM, DEVELOPER}


@pytest.mark.acceptance("1.1-5")
def test_is_developer() -> None:
    assert roles_where(Message.is_developer) == {DEVELOPER}


@pytest.mark.acceptance("1.1-6")
def test_has_role_asks_for_several_at_once_and_none_is_never_it() -> None:
    assert roles_where(lambda message: message.has_role(USER, TOOL)) == {USER, TOOL}
    assert roles_where(lambda message: message.has_role(*MessageRole)) == set(MessageRole)
    assert roles_where(lambda message: message.has_role()) == set()
