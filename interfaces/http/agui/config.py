"""Which parts of a run a front end is shown, and the caller behind a request."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError, MissingExtra
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_plain_function, a_row, a_text, a_time, check_flags, for_the_record

Branches = Literal["fork", "refuse", "join"]


def _metadata(state: AgentState) -> JsonValue:
    return dict(state.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class AguiConfig:
    """How much of a run leaves the process.

    `state` makes what `STATE_SNAPSHOT` carries of the session, its metadata unless you say otherwise; it is looked
    at again after each step, when the metadata changes and at the end, and may be called in a thread. Calls of tools in
    `hidden_arguments`, or with `include_tool_args=False` of all of them, are told without their arguments, also where a
    refusal would quote them. `include_reasoning` tells what a model shows of its reasoning. `include_errors` puts the
    message of the error that ended a run into `RUN_ERROR`; it may quote a provider or a tool.

    `branches` says what becomes of a request whose conversation leaves out, or replaces, what was said in the thread:
    with "fork" it goes on in a branch of the thread, a fork of its session, with "refuse" it is 409, and with "join" a
    new message is said in the thread as it is, whatever the client shows.

    For so many seconds as `tools_expire` says a call of a front end's own tool waits for its result. `front_end_tools`
    names the external tools of the agent whose results front ends give too; those of others they may not give. Raises
    `ConfigurationError` for what is neither True nor False, another word for `branches`, a `state` that is no plain
    function, and names that are no list of texts.
    """

    state: Callable[[AgentState], JsonValue] = _metadata
    include_tool_args: bool = True
    hidden_arguments: frozenset[str] = frozenset()
    include_reasoning: bool = False
    include_errors: bool = False
    branches: Branches = "fork"
    tools_expire: float = 3600.0
    front_end_tools: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_flags(self)
        if self.branches not in get_args(Branches):
            raise ConfigurationError(f"`branches` is fork, refuse or join, not {self.branches!r}")
        a_time(self.tools_expire, "tools_expire")
        a_plain_function(self.state, "state", "the state of a session")
        for setting in ("hidden_arguments", "front_end_tools"):
            names = a_row(getattr(self, setting), setting)
            object.__setattr__(self, setting, frozenset(a_text(name, "the name of a tool") for name in names))

    def shows_arguments_of(self, tool: str) -> bool:
        """Tell whether the arguments of this tool's calls are shown."""
        return self.include_tool_args and tool not in self.hidden_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class AguiCaller:
    """The sender of a request, as your `authorize` found out.

    `name` is recorded with what is said and answered. A session that the request begins gets the `metadata`, and the
    `context` where the agent declares one; later runs of the session keep it. Raises `ConfigurationError` for a name
    that names nobody.
    """

    name: str
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    context: Any = None

    def __post_init__(self) -> None:
        for_the_record(self.name, "the name of a caller")


def require_agui(feature: str, *packages: str) -> None:
    """Raise `MissingExtra` unless the protocol's package and these are installed."""
    for module, package in (("ag_ui", "ag-ui-protocol"), *((each.replace("-", "_"), each) for each in packages)):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(feature, "agui", package)
