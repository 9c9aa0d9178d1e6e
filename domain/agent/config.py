"""The description of an agent that is recorded with each execution: readable, comparable, without code or secrets.

A running execution keeps the limits and the error policy it was started with, also when the agent's code changes later.
"""

from msgspec import structs

from steptrail.domain.base import Count, Settings
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.inference import ModelInfo, ToolChoice
from steptrail.domain.instructions import InstructionsSpec
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.output import OutputMode, OutputSpec
from steptrail.domain.policy.compaction import CompactionSpec
from steptrail.domain.policy.fallback import FallbackSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import ToolSpec


class HookSpec(Settings, frozen=True, kw_only=True):
    """A registered hook: its name in the log, the moment at which it runs, and its priority (higher runs first)."""

    name: str
    type: str
    priority: int = 0


class ContextSpec(Settings, frozen=True, kw_only=True):
    """The type of what is said of each run of an agent: its name, and the schema of the JSON that is stored."""

    type_name: str
    json_schema: dict[str, JsonValue]


class AgentSnapshot(Settings, frozen=True, kw_only=True):
    """An agent as it was when an execution started or was resumed.

    `fingerprint` is a digest of all other fields, and of the workflows that the tools run. `locator` is the text by
    which the command line found the agent. Without `earlier_tool_traces`, requests leave out the calls and results
    before the input that is being answered. With a `media_window`, they show so many files, the newest, and tell of
    earlier ones in words. `output` is the form in which it answers; None for an agent that answers in
    text. `context` is the type of what is said of each run, and `resources` is the name of the function that opens
    things for one; None when it has none. `fallback` has the models after `model`; None when none is left.
    `instructions` are written by functions while a run goes on. `compaction` says when a
    conversation that outgrows its model is compacted; None when it never is.
    """

    name: str
    model: ModelInfo
    fingerprint: str
    locator: str | None = None
    system_prompt: str | None = None
    examples: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    earlier_tool_traces: bool = True
    media_window: Count | None = None
    limits: Limits = Limits()
    error_policy: ErrorPolicy = ErrorPolicy.stop_on_any_error()
    criteria: tuple[str, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    output: OutputSpec | None = None
    context: ContextSpec | None = None
    resources: str | None = None
    fallback: FallbackSpec | None = None
    instructions: tuple[InstructionsSpec, ...] = ()
    compaction: CompactionSpec | None = None

    def tool(self, name: str) -> ToolSpec | None:
        """Return the tool of that name; None when the agent has no such tool."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        return None

    def result_schema(self, name: str) -> dict[str, JsonValue] | None:
        """Return the schema that the result of an external tool of that name has to fit; None when any JSON does."""
        tool = self.tool(name)
        return tool.external.result if tool is not None and tool.external is not None else None

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models that it asks in turn."""
        return (self.model, *(each.model for each in (self.fallback.models if self.fallback is not None else ())))

    def switched(self, times: int = 1) -> "AgentSnapshot":
        """Return the agent as it goes on with a later of its models: with the form of that one, and those after it."""
        if times == 0 or self.fallback is None or not self.fallback.models:
            return self
        following, *later = self.fallback.models
        left = structs.replace(self.fallback, models=tuple(later)) if later else None
        return structs.replace(self, model=following.model, output=following.output, fallback=left).switched(times - 1)

    def with_external(self, tools: tuple[ToolSpec, ...]) -> "AgentSnapshot":
        """Return the agent with these external tools beside its own, whose names go first."""
        more = tuple(tool for tool in tools if self.tool(tool.name) is None)
        return structs.replace(self, tools=(*self.tools, *more)) if more else self

    def name_of_answers(self, mode: OutputMode | None) -> str | None:
        """Return the name of the calls whose arguments are the answer in a mode; None when it comes in no call."""
        return self.output.name if self.output is not None and mode is OutputMode.TOOL else None

    def has_hooks(self, hook_type: str) -> bool:
        """Tell whether any hook is registered for `hook_type`."""
        return any(hook.type == hook_type for hook in self.hooks)


_NOT_COMPARED = frozenset({"error_policy", "fingerprint", "limits", "locator", "tools"})
"""The fields that the record of a resume does not name: of the tools it names each, and a run keeps its settings."""


def changes_between(old: AgentSnapshot, new: AgentSnapshot) -> tuple[str, ...]:
    """Return the names of the fields and the tools in which two snapshots differ, for the record of a resume."""
    compared = [name for name in AgentSnapshot.__struct_fields__ if name not in _NOT_COMPARED]
    fields = [name for name in compared if getattr(old, name) != getattr(new, name)]
    before, after = ({tool.name: tool for tool in snapshot.tools} for snapshot in (old, new))
    added = [f"tool {name} added" for name in after if name not in before]
    removed = [f"tool {name} removed" for name in before if name not in after]
    changed = [f"tool {name} changed" for name in after if name in before and before[name] != after[name]]
    return (*fields, *added, *removed, *changed)
