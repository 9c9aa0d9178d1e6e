"""Settings of what front ends and pages are shown: what cannot be meant is refused, before it could show too much."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.agui import AguiConfig, agui_app
from steptrail.broadcasting import Broadcaster, InProcessTransport
from steptrail.broadcasting.asgi import event_stream
from steptrail.errors import ConfigurationError
from steptrail.inspector import Access, inspector
from steptrail.serialization import SlimSerializationConfig
from steptrail.ui import UiConfig
from tests.runner.kit import agent_of

FLAGS: tuple[tuple[Callable[..., object], str], ...] = (
    (UiConfig, "include_tool_args"),
    (UiConfig, "include_args_summary"),
    (UiConfig, "include_tool_results"),
    (UiConfig, "include_tool_errors"),
    (UiConfig, "include_continuation_trace"),
    (SlimSerializationConfig, "include_tool_args"),
    (SlimSerializationConfig, "include_tool_results"),
    (SlimSerializationConfig, "include_metadata"),
    (SlimSerializationConfig, "include_reasoning"),
    (SlimSerializationConfig, "include_steps"),
    (SlimSerializationConfig, "include_all_steps"),
    (SlimSerializationConfig, "include_continuation_trace"),
    (AguiConfig, "include_tool_args"),
    (AguiConfig, "include_reasoning"),
    (AguiConfig, "include_errors"),
    (Access, "may_act"),
)


@pytest.mark.parametrize(("settings", "flag"), FLAGS)
def test_the_false_of_a_variable_shows_nothing_and_allows_nothing(settings: Callable[..., object], flag: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{flag} is True or False, not 'false'$"):
        settings(**{flag: "false"})
    settings(**{flag: False})


async def _state(state: object) -> object:
    return state


def _nobody(*request: object) -> Any:
    assert request


@pytest.mark.parametrize(
    ("settings", "given", "said"),
    [
        (UiConfig, {"max_arg_length": "5"}, "max_arg_length is a whole number, not str"),
        (UiConfig, {"max_arg_length": float("nan")}, "max_arg_length is a whole number, not float"),
        (AguiConfig, {"hidden_arguments": "pay"}, "hidden_arguments: Expected a list, got `str`"),
        (AguiConfig, {"hidden_arguments": [1]}, "the name of a tool is a text, not int"),
        (AguiConfig, {"state": 5}, "state is a function, not int"),
        (AguiConfig, {"state": _state}, "state is a plain function"),
        (Access, {"tenant": 7}, "the tenant of a caller is a text, not int"),
        (Access, {"user": None}, "the user of an access is a text, not NoneType"),
    ],
)
def test_what_shows_something_else_than_it_says_is_refused(
    settings: Callable[..., object], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        settings(**given)


def test_the_tools_with_hidden_arguments_may_be_listed() -> None:
    listed: Any = ["pay", "pay"]
    config = AguiConfig(hidden_arguments=listed)
    assert [config.shows_arguments_of(tool) for tool in ("pay", "payment")] == [False, True]


async def test_a_page_that_would_hide_nothing_is_refused() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        for given, said in (
            ({"mask_keys": "password"}, "`mask_keys`: Expected a list, got `str`"),
            ({"mask_keys": [5]}, "each of `mask_keys` is a text, not int"),
            ({"mask_keys": None}, "`mask_keys`: Expected a list, got `NoneType`"),
            ({"show": "shapes"}, "`show` is one of values, shape, not 'shapes'"),
            ({"hosts": "runs.example.com"}, "hosts: Expected a list, got `str`"),
            ({"hosts": [None]}, "each of hosts is a text, not NoneType"),
            ({"authorize": None}, "authorize is a function, not NoneType"),
        ):
            settings: dict[str, Any] = {"authorize": _nobody, **given}
            with pytest.raises(ConfigurationError, match=said):
                inspector(trail, **settings)


def test_what_serves_a_trail_takes_one_of_open() -> None:
    agent = agent_of(["Hi."]).build()
    served: tuple[Callable[[Any], object], ...] = (
        lambda trail: inspector(trail, authorize=_nobody),
        lambda trail: agui_app(trail, agent, authorize=_nobody),
        lambda trail: event_stream(trail, authorize=_nobody),
        lambda trail: Broadcaster(trail, InProcessTransport()),
    )
    with Steptrail.open_sync("sqlite:///:memory:") as blocking:
        for serve in served:
            with pytest.raises(ConfigurationError, match="`trail` is of the class Steptrail, not SyncSteptrail"):
                serve(blocking)
