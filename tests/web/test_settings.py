"""Settings of the HTTP applications with which each request would fail are refused where the application is made."""

from typing import Any

import pytest

from steptrail.agui import agui_app
from steptrail.broadcasting.asgi import event_stream
from steptrail.errors import ConfigurationError
from tests.agui.pages import ana
from tests.runner.kit import agent_of, trail_of

NO_SECONDS: tuple[Any, ...] = ("15", None, True, -1, float("nan"), float("inf"))


def anybody(connection: object, session: str) -> bool:
    """Let everybody see everything."""
    del connection, session
    return True


def settings(name: str, *wrong: Any) -> list[tuple[str, Any]]:
    """Return a setting with each of these wrong values."""
    return [(name, each) for each in wrong]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *settings("heartbeat_seconds", *NO_SECONDS, 0),
        *settings("retry_seconds", *NO_SECONDS),
        *settings("origins", "https://app.example.com", 5, None, [5], [None]),
        *settings("config", "debug", {}),
        *settings("conversation", "all", {}),
        *settings("authorize", None, True, "ana"),
    ],
)
async def test_an_event_stream_that_could_answer_nobody_is_refused(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"authorize": anybody, name: wrong}
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=name):
            event_stream(trail, **given)
        event_stream(trail, authorize=anybody, retry_seconds=0, origins=["https://app.example.com"])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *settings("heartbeat_seconds", *NO_SECONDS, 0),
        *settings("max_body_bytes", "10", None, True, 1.5, 0),
        *settings("max_history", "10", None, True, 1.5, -1),
        *settings("authorize", None, True, "ana"),
        *settings("authenticate", True, "ana"),
        *settings("config", None, "all", {}),
    ],
)
async def test_an_ag_ui_endpoint_that_could_answer_nobody_is_refused(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"authorize": ana, name: wrong}
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=name):
            agui_app(trail, agent_of(["done"]).build(), **given)
