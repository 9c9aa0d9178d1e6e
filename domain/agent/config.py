"""What is recorded of an agent with each execution: readable, comparable, free of code and secrets.

A running execution keeps the limits and the error policy it was started with, whatever the agent's code says later.
"""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from steptrail.domain.base import LARGEST, FrozenModel, Settings
from steptrail.domain.inference import FinishReason, ModelInfo, ToolChoice
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import PriceTable, Unpriced, Usd
from steptrail.domain.tools import ToolSpec

__all__ = ["AgentSnapshot", "HookSpec", "LimitName", "Limits", "changes_between"]

LimitName = Literal[
    "max_steps",
    "max_tokens",
    "max_input_tokens",
    "max_output_tokens",
    "max_cost",
    "max_tool_calls",
    "timeout",
    "cumulative_timeout",
    "finish_reasons",
    "max_unproductive_segments",
]
"""The settings of `Limits` that end a run."""


class Limits(Settings):
    """The guards of one execution. `None` means no limit.

    Times are in seconds: `timeout` counts wall time since the execution started or was last resumed,
    `cumulative_timeout` the active time of all its steps. Reaching a limit forbids (`>=`). `max_result_characters` cuts
    what the model sees of one tool result; `max_concurrent_tools` is how many calls of a step run at once, where their
    tools allow it; `max_tool_calls` is how many an execution may make; `stop_grace` is how long an effect in flight may
    take to land after a stop; `longest_wait` is how long a run sits out the wait for a retry: a longer one ends the
    call as `waiting`.

    `max_cost` is in US dollars and needs `prices`; `unpriced` is what it does about a model that has none. The limits
    named in `shadow` vote and stop nothing.
    """

    max_steps: int | None = Field(default=20, ge=0, le=LARGEST)
    max_tokens: int | None = Field(default=32_768, ge=0, le=LARGEST)
    timeout: float | None = Field(default=300.0, gt=0)
    cumulative_timeout: float | None = Field(default=None, gt=0)
    finish_reasons: tuple[FinishReason, ...] = ()
    max_unproductive_segments: int = Field(default=3, ge=1, le=LARGEST)
    max_result_characters: int | None = Field(default=16_000, ge=1, le=LARGEST)
    max_concurrent_tools: int = Field(default=8, ge=1, le=LARGEST)
    max_tool_calls: int | None = Field(default=None, ge=0, le=LARGEST)
    stop_grace: float = Field(default=2.0, ge=0)
    longest_wait: float = Field(default=60.0, ge=0)
    max_input_tokens: int | None = Field(default=None, ge=0, le=LARGEST)
    max_output_tokens: int | None = Field(default=None, ge=0, le=LARGEST)
    prices: PriceTable | None = None
    max_cost: Usd | None = None
    unpriced: Unpriced = "fail_closed"
    shadow: tuple[LimitName, ...] = ()

    @field_validator("max_cost")
    @classmethod
    def _priced(cls, max_cost: Usd | None, info: ValidationInfo) -> Usd | None:
        if max_cost is not None and info.data.get("prices") is None:
            raise ValueError("a limit on cost needs `prices`")
        return max_cost

    @field_validator("shadow")
    @classmethod
    def _each_once(cls, shadow: tuple[LimitName, ...]) -> tuple[LimitName, ...]:
        # The order says nothing, and the fingerprint of an agent must not depend on it.
        return tuple(sorted(set(shadow)))

    def is_shadow(self, name: LimitName) -> bool:
        """Tell whether that limit votes and stops nothing."""
        return name in self.shadow


class HookSpec(FrozenModel):
    """A registered hook: its name in the log, when it runs, and its priority (higher runs first)."""

    name: str
    type: str
    priority: int = 0


class AgentSnapshot(FrozenModel):
    """An agent as it was when an execution started or was resumed.

    `fingerprint` is a digest of everything else here; `locator` is how the command line found the agent. Without
    `earlier_tool_traces` requests leave out the calls and results from before the input that is being answered.
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
    limits: Limits = Limits()
    error_policy: ErrorPolicy = ErrorPolicy.stop_on_any_error()
    criteria: tuple[str, ...] = ()
    hooks: tuple[HookSpec, ...] = ()

    def tool(self, name: str) -> ToolSpec | None:
        """Return the tool of that name, if the agent has it."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def has_hooks(self, hook_type: str) -> bool:
        """Tell whether any hook is registered for `hook_type`."""
        return bool(self.hooks) and any(hook.type == hook_type for hook in self.hooks)


def changes_between(old: AgentSnapshot, new: AgentSnapshot) -> tuple[str, ...]:
    """Name what differs between two snapshots, for the record of a resume: fields, and tools one by one."""
    plain = (
        "model",
        "system_prompt",
        "examples",
        "tool_choice",
        "parallel_tool_calls",
        "earlier_tool_traces",
        "criteria",
        "hooks",
    )
    fields = [name for name in plain if getattr(old, name) != getattr(new, name)]
    before, after = ({tool.name: tool for tool in snapshot.tools} for snapshot in (old, new))
    added = [f"tool {name} added" for name in after if name not in before]
    removed = [f"tool {name} removed" for name in before if name not in after]
    changed = [f"tool {name} changed" for name in after if name in before and before[name] != after[name]]
    return (*fields, *added, *removed, *changed)
