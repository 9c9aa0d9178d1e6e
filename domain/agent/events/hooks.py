"""Events of hooks: the hooks of one moment ran, a hook changed a request, a hook was billed."""

from steptrail.domain.base import Count
from steptrail.domain.inference import ToolChoice
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import Message
from steptrail.domain.usage import BilledUsage


class HooksRan(Event, frozen=True, kw_only=True):
    """The hooks of one type ran, in this order. `position` is that of the tool call; None for hooks about no call.

    `forbidden_by` is the first hook that raised or voted to forbid: then the thing that it runs before does not happen.
    `read_settings` says that a hook read the run's limits, policy or prices, and might act otherwise with other ones.
    """

    TYPE = "hooks.ran.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"forbidden_by", "hook_type", "hooks"})
    hook_type: str
    step: Count
    position: Count | None = None
    hooks: tuple[str, ...]
    forbidden_by: str | None = None
    read_settings: bool = False


class InferenceRequestAmended(Event, frozen=True, kw_only=True):
    """A hook changed the next model call, and only that one."""

    TYPE = "inference.request.amended.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"extra_messages"})
    STATE = frozenset({"hook", "tools"})
    hook: str
    extra_messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None


class UsageRecorded(Event, frozen=True, kw_only=True):
    """A hook made model calls of its own. Their bill counts like that of the steps."""

    TYPE = "usage.recorded.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"hook", "usage"})
    hook: str
    usage: BilledUsage


HookEvent = HooksRan | InferenceRequestAmended | UsageRecorded
