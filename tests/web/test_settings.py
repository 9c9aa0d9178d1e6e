"""Settings of the HTTP applications with which each request would fail are refused where the application is made."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail.agui import AguiCaller, agui_app
from steptrail.broadcasting.asgi import event_stream
from steptrail.errors import ConfigurationError
from tests.runner.kit import agent_of, trail_of

NO_SECONDS: tuple[Any, ...] = ("15", None, True, -1, float("nan"), float("inf"))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("heartbeat_seconds", wrong) for wrong in (*NO_SECONDS, 0)),
        *(("retry_seconds", wrong) for wrong in NO_SECONDS),
        *(("origins", wrong) for wrong in ("https://app.example.com", 5, None, [5], [None])),
        *(("config", wrong) for wrong in ("debug", {})),
        *(("conversation", wrong) for wrong in ("all", {})),
        *(("authorize", wrong) for wrong in (None, True, "ana")),
    ],
)
async def test_an_event_stream_that_could_answer_nobody_is_refused(name: str, wrong: Any) -> None:
    make: Callable[..., object] = event_stream
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=name):
            make(trail, **{"authorize": lambda *_: True, name: wrong})
        make(trail, authorize=lambda *_: True, retry_seconds=0, origins=["https://app.example.com"])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("heartbeat_seconds", wrong) for wrong in (*NO_SECONDS, 0)),
        *(("max_body_bytes", wrong) for wrong in ("10", None, True, 1.5, 0)),
        *(("max_history", wrong) for wrong in ("10", None, True, 1.5, -1)),
        *(("authorize", wrong) for wrong in (None, True, "ana")),
        *(("authenticate", wrong) for wrong in (True, "ana")),
        *(("config", wrong) for wrong in (None, "all", {})),
    ],
)
async def test_an_ag_ui_endpoint_that_could_answer_nobody_is_refused(name: str, wrong: Any) -> None:
    make: Callable[..., object] = agui_app
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=name):
            make(trail, agent_of(["done"]).build(), **{"authorize": lambda *_: AguiCaller(name="ana"), name: wrong})
