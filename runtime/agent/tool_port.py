"""The port of the runner to a tool: its description, and one run of it with an outcome that can be recorded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.storable import storable
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import BilledUsage

if TYPE_CHECKING:
    from steptrail.runtime.kernel.child_place import ChildPlace

__all__ = [
    "Capture",
    "Report",
    "RunnableTool",
    "ToolContext",
    "ToolFailed",
    "ToolOutcome",
    "ToolSucceeded",
    "ToolSuspended",
    "ToolTimedOut",
]

Report = Callable[[str, float | None, float | None], None]
"""Shows a message and how much is done of how much."""

Capture = Callable[[BaseException], ErrorInfo]
"""Classifies what a tool raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Which call this is. A tool receives it in the parameter annotated with this type; the schema leaves it out.

    The effect id is made by the runtime and is the same over retries and crashes: hand it to the other side as an
    idempotency key. `step` and `attempt` count from 1. `deadline_seconds` is the rest of the call's time when it began,
    in seconds; None means that there is no limit. `state` is the session as it was then; None in a call
    that no run makes. `child` is where the call may begin a stream of its own, for tools whose spec
    says `runs_children`.
    """

    effect_id: str
    session_id: str
    execution_id: str
    step: int
    call_id: str
    attempt: int
    deadline_seconds: float | None = None
    state: AgentState | None = field(default=None, repr=False, compare=False)
    report: Report | None = field(default=None, repr=False, compare=False)
    child: "ChildPlace | None" = field(default=None, repr=False, compare=False)

    def progress(self, message: str = "", *, done: float | None = None, total: float | None = None) -> None:
        """Show how far the call has come to those who watch the run, from any thread. It is not stored."""
        if self.report is not None:
            self.report(message, done, total)


@dataclass(frozen=True, slots=True)
class ToolSucceeded:
    """The tool returned this JSON. Raises `NotStorable` for what could not be read again.

    The model is shown at most `most_shown` characters of it, or as many as the run's limits say when that is less.
    """

    result: JsonValue
    most_shown: int | None = None
    usage: BilledUsage | None = None

    def __post_init__(self) -> None:
        """Refuse here, where it is made, what would be a session that cannot be read."""
        object.__setattr__(self, "result", storable(self.result))


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """The tool was not called, or raised, or returned what cannot be recorded.

    `may_retry` says that its own rule has such an error tried again.
    """

    error: ErrorInfo
    may_retry: bool = False
    usage: BilledUsage | None = None


@dataclass(frozen=True, slots=True)
class ToolTimedOut:
    """The time of the call was up. `cancelled` means that no part of it runs any more."""

    error: ErrorInfo
    cancelled: bool
    may_retry: bool = False
    usage: BilledUsage | None = None


@dataclass(frozen=True, slots=True)
class ToolSuspended:
    """The session that the call runs waits or is paused, for `reason`; `until` is in microseconds of UTC.

    The call is made again, with the same effect id, at the next resume or at that time.
    """

    session: str
    reason: str
    until: int | None = None
    usage: BilledUsage | None = None


ToolOutcome = ToolSucceeded | ToolFailed | ToolTimedOut | ToolSuspended
"""How a call ended. `usage` is what the session that it ran was billed in all, for the tool that ran one."""


class RunnableTool(Protocol):
    """A tool as the runner sees it."""

    @property
    def spec(self) -> ToolSpec:
        """Return what is recorded of the tool and shown to the model."""
        ...

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        """Run it once. `arguments` is None when the model's text `raw` was not a JSON object."""
        ...
