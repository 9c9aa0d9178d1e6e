"""The port through which the runtime runs a tool: its description, and one run with an outcome that can be recorded."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from msgspec import Struct, structs

from steptrail.domain.agent.state import AgentState
from steptrail.domain.base import Count, Value, read_back, refuse_wrong_types
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.type_variables import DataT_co, ResourcesT_co
from steptrail.runtime.kernel.json_form import to_json_value

if TYPE_CHECKING:
    from steptrail.runtime.agent.declared_context import DeclaredContext
    from steptrail.runtime.kernel.child_place import ChildPlace

Report = Callable[[str, float | None, float | None], None]
"""Shows the progress of a call: a message, how much is done, and how much there is in all."""

Capture = Callable[[BaseException], ErrorInfo]
"""Returns the recorded form of an exception that a tool raised."""


NOTHING: Any = None
"""The context and the resources of a run that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[DataT_co, ResourcesT_co]):
    """The context of one call. A tool receives it in the parameter with this annotation, which is not in the schema.

    The effect id is the same over retries and crashes of the call: give it to the other side as an idempotency key.
    `step` and `attempt` count from 1. `deadline_seconds` is the time that the call had left when it began; None means
    that there is no limit. `state` is the session at that time; None in a call outside of a run. `child` is the place
    for a stream that the call begins, for tools whose spec says `runs_children`; these get `declared` too, the type of
    the agent's context. `data` is what was said of the run, and `resources` is what is open for it; None when nothing
    is. `ToolContext[Caller, Shop]` has the types of both.
    """

    effect_id: str
    session_id: str
    execution_id: str
    step: int
    call_id: str
    attempt: int
    data: DataT_co = NOTHING
    resources: ResourcesT_co = field(default=NOTHING, repr=False, compare=False)
    deadline_seconds: float | None = None
    state: AgentState | None = field(default=None, repr=False, compare=False)
    report: Report | None = field(default=None, repr=False, compare=False)
    child: "ChildPlace | None" = field(default=None, repr=False, compare=False)
    declared: "DeclaredContext[Any] | None" = field(default=None, repr=False, compare=False)

    def progress(self, message: str = "", *, done: float | None = None, total: float | None = None) -> None:
        """Show the progress of the call to those who watch the run. May be called in any thread. It is not stored."""
        if self.report is not None:
            self.report(message, done, total)


NO_CONTEXT: ToolContext[Any, Any] = ToolContext(
    effect_id="", session_id="", execution_id="", step=0, call_id="", attempt=0
)
"""The context of no call: arguments are looked at, and nothing is called."""


class _Outcome(Struct, frozen=True):
    """Becomes a part of an event. What cannot be read back there would make the whole session unreadable."""

    def __post_init__(self) -> None:
        """Check all of it at once, where the tool has made it."""
        for name in self.__struct_fields__:
            if isinstance(value := getattr(self, name), Value):
                structs.force_setattr(self, name, read_back(value))
        refuse_wrong_types(self)


class ToolSucceeded(_Outcome, frozen=True):
    """The tool returned this, as `to_json_value` makes JSON of it. Raises `NotStorable` for what has no JSON form.

    The model is shown at most `most_shown` characters of it, or fewer if the run's limits say so, and the `files`.
    """

    result: JsonValue
    most_shown: Count | None = None
    usage: BilledUsage | None = None
    files: tuple[FilePart, ...] = ()

    def __post_init__(self) -> None:
        """Make a copy of the result that can be stored."""
        structs.force_setattr(self, "result", to_json_value(self.result, "result"))
        super().__post_init__()


class ToolFailed(_Outcome, frozen=True):
    """The tool was not called, or raised, or returned a value that cannot be recorded.

    `may_retry` says that the tool's own retry rule covers such an error.
    """

    error: ErrorInfo
    may_retry: bool = False
    usage: BilledUsage | None = None


class ToolTimedOut(_Outcome, frozen=True):
    """The time of the call was up. `cancelled` means that no part of it runs any more."""

    error: ErrorInfo
    cancelled: bool
    may_retry: bool = False
    usage: BilledUsage | None = None


class ToolSuspended(_Outcome, frozen=True):
    """The session that the call runs waits or is paused, for `reason`.

    The call is made again, with the same effect id, at the next resume, or at `until` (microseconds of UTC).
    """

    session: str
    reason: str
    until: int | None = None
    usage: BilledUsage | None = None


ToolOutcome = ToolSucceeded | ToolFailed | ToolTimedOut | ToolSuspended
"""The outcome of a call. `usage` is the whole bill of the session that the call ran; None when it ran none."""


def outcome_of(tool: "RunnableTool", returned: object) -> ToolOutcome:
    """Return what a tool has returned; a failure where that is no outcome, because a tool may be anybody's."""
    if isinstance(returned, ToolOutcome):
        return returned
    said = f"the tool {tool.spec.name!r} returned {type(returned).__name__} and not an outcome"
    return ToolFailed(ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:InvalidOutcome", message=said))


_ANYTHING = (object, Any, None, type(None))


def wanted_by(tool: object) -> tuple[object, object]:
    """Return the types of `data` and `resources` that a tool names for its context; None where it takes anything."""
    named: tuple[object, ...] = getattr(tool, "context_types", ())
    data, resources, *_ = (None if each in _ANYTHING else each for each in (*named, None, None))
    return data, resources


class Patience(NamedTuple):
    """The patience with a tool that was cancelled: how many `seconds` it may take to end.

    `outcome` returns the outcome of a call that had `timeout` seconds, and did not end by its patience after that.
    """

    seconds: float
    outcome: Callable[[float | None], ToolTimedOut]


class RunnableTool(Protocol):
    """A tool, as the runtime needs it.

    A tool may have an attribute `context_types`: the types of `data` and `resources` that it wants. An agent that has
    others refuses it. A tool may have an attribute `patience`. Then a call that was cancelled is left behind when the
    patience is over, and what it returns before that is dropped. Without one, it is waited for until `run` has
    returned. A tool may have a method `check_arguments(arguments, raw, capture)` that returns the `ErrorInfo` of
    arguments with which `run` would fail before it does anything; None for others. No person is asked about a call with
    such ones.
    """

    @property
    def spec(self) -> ToolSpec:
        """Return the description of the tool that is recorded and shown to the model."""
        ...

    def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext[Any, Any],
        *,
        timeout: float | None,
        capture: Capture,
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Run the tool once, in `timeout` seconds at most, which the tool keeps itself; None means without a limit.

        `arguments` is None when the model's text `raw` was not a JSON object. Nobody has compared them with the schema.
        An exception is a failed call, and so is one that it returns in a `ToolFailed` by way of `capture`. A
        `TimeoutError` at the end of `timeout` means that the time was up.
        """
        ...
