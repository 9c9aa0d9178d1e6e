"""The stored description of a tool: its name, its schema, and the meaning of a crash in the middle of it."""

import json
from enum import StrEnum

from pydantic import Field, JsonValue

from steptrail.domain.base import FrozenModel
from steptrail.domain.policy.backoff import Backoff

__all__ = ["ApprovalRule", "OnUnknown", "ToolEffect", "ToolRetry", "ToolSpec", "failure_text", "result_text"]

_CENTURY = 100 * 365.25 * 86_400
"""Seconds. What is later can be counted and not be told as a date."""


class ToolEffect(StrEnum):
    """The effect of a tool on the outside world, which decides what may happen after a crash in the middle of it."""

    READ = "read"
    """It only reads: it runs again."""
    IDEMPOTENT = "idempotent"
    """Running it twice is running it once: it runs again."""
    KEYED = "keyed"
    """It hands its effect id to the other side as an idempotency key: it runs again with the same one."""
    UNSAFE = "unsafe"
    """Running it twice may do harm: it is never repeated; its outcome is unknown."""


class OnUnknown(StrEnum):
    """How the run goes on when the outcome of an unsafe call is unknown."""

    TELL = "tell"
    """The model is told that the outcome is unknown; the error policy does not count it."""
    FAIL = "fail"
    """It is a failed call, and the error policy decides."""
    PARK = "park"
    """The run waits for a person to say what happened."""


class ApprovalRule(FrozenModel):
    """Every call needs a person's yes before it runs.

    Nobody's answer within `expires` seconds, a century at most, is a no; the default of 72 hours spans a weekend.
    `reason` tells the person why they are asked.
    """

    expires: float = Field(default=72 * 3600.0, gt=0, le=_CENTURY)
    reason: str | None = None


class ToolRetry(FrozenModel):
    """A call that fails is tried again by itself, before the model or the error policy hear of it.

    `attempts` counts the first try. `retry_on` names the exceptions, as `module:qualname`, that are tried again; none
    named means every one. What was cut off and may have taken effect is never tried again by this rule.
    """

    attempts: int = Field(default=3, ge=1)
    backoff: Backoff = Backoff.exponential(0.5, jitter=0.5)
    retry_on: tuple[str, ...] = ()


class ToolSpec(FrozenModel):
    """A tool as it is stored with an execution and shown to the model.

    `parameters` is a JSON schema of an object. `timeout` is in seconds per attempt. `concurrent` says whether its calls
    may run beside other calls of a step; unless it is said, those that only read may. `max_calls` is how many calls of
    it an execution may make. `runs_children` is the kind of the streams that its calls
    run, one each, such as `agent`; None for a tool that runs none.
    """

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    effect: ToolEffect = ToolEffect.UNSAFE
    on_unknown: OnUnknown = OnUnknown.TELL
    timeout: float | None = Field(default=None, gt=0)
    approval: ApprovalRule | None = None
    concurrent: bool | None = None
    retry: ToolRetry | None = None
    max_calls: int | None = Field(default=None, ge=0)
    runs_children: str | None = None

    @property
    def may_run_beside_others(self) -> bool:
        """Tell whether its calls may run at the same time as their neighbours in the model's reply."""
        return self.effect is ToolEffect.READ if self.concurrent is None else self.concurrent


def result_text(result: JsonValue) -> str:
    """Return what the model is shown of a result: text as it is, anything else as compact JSON."""
    if isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def failure_text(message: str) -> str:
    """Return what the model is shown of a failed call."""
    return f"Error in tool call: {message}"
