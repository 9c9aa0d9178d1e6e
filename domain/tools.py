"""The stored description of a tool: its name, its schema, and how a crash in the middle of a call is handled."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from steptrail.domain.base import BoundedPositive, Count, PositiveSeconds, Settings, full_form
from steptrail.domain.compact_json import compact_json
from steptrail.domain.json_value import JsonValue
from steptrail.domain.policy.backoff import Backoff


class ToolEffect(StrEnum):
    """The effect of a tool on the outside world, which decides what may happen after a crash in the middle of it."""

    READ = "read"
    """The tool only reads. It runs again."""
    IDEMPOTENT = "idempotent"
    """To run the tool twice has the same effect as to run it once. It runs again."""
    KEYED = "keyed"
    """The tool gives its effect id to the other side as an idempotency key. It runs again with the same id."""
    UNSAFE = "unsafe"
    """To run the tool twice may do harm. It is never repeated, and its outcome is unknown."""


class OnUnknown(StrEnum):
    """How the run goes on when the outcome of an unsafe call is unknown."""

    TELL = "tell"
    """The model is told that the outcome is unknown. The error policy does not count the call."""
    FAIL = "fail"
    """The call has failed, and the error policy decides."""
    PARK = "park"
    """The run waits for a person who says what happened."""


class ApprovalRule(Settings, frozen=True, kw_only=True):
    """Every call needs a person's yes before it runs.

    No answer within `expires` seconds, at most a century, counts as a no. The default of 72 hours spans a weekend.
    `reason` says to the person why they are asked.
    """

    expires: PositiveSeconds = 72 * 3600.0
    reason: str | None = None


class ToolRetry(Settings, frozen=True, kw_only=True):
    """A rule by which a failed call is tried again, before the model or the error policy sees the failure.

    `attempts` includes the first try. `retry_on` names the exceptions, as `module:qualname`, that are tried again; if
    it is empty, all are. A call that was cut off and may have taken effect is never tried again by this rule.
    """

    attempts: BoundedPositive = 3
    backoff: Backoff = Backoff.exponential(0.5, jitter=0.5)
    retry_on: tuple[str, ...] = ()


class ExternalRule(Settings, frozen=True, kw_only=True):
    """The tool has no body: somebody outside is asked for the result of each call.

    A call that nobody answers within `expires` seconds, at most a century, has failed. The default of 72 hours spans a
    weekend. `result` is the JSON schema that a result has to fit; None when any JSON does. `of_page` says that a front
    end has brought the tool, and answers its calls.
    """

    expires: PositiveSeconds = 72 * 3600.0
    result: dict[str, JsonValue] | None = None
    of_page: bool = False


class ToolSpec(Settings, frozen=True, kw_only=True):
    """A tool as it is stored with an execution and shown to the model.

    `parameters` is the JSON schema of an object. `timeout` is in seconds for each attempt. `concurrent` says whether
    its calls may run beside other calls of a step; with None they may if the tool only reads. `max_calls` is the number
    of its calls that an execution may make. `runs_children` is the kind of the streams that its calls run, such as
    `agent`; None for a tool that runs no streams. `takes_context` says that it gets a `ToolContext`, in which it can
    read the session and its settings. `external` is there for a tool without a body.
    """

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]
    description: str = ""
    parameters: dict[str, JsonValue] = {}
    effect: ToolEffect = ToolEffect.UNSAFE
    on_unknown: OnUnknown = OnUnknown.TELL
    timeout: PositiveSeconds | None = None
    approval: ApprovalRule | None = None
    concurrent: bool | None = None
    retry: ToolRetry | None = None
    max_calls: Count | None = None
    runs_children: str | None = None
    takes_context: bool = True
    external: ExternalRule | None = None

    @property
    def may_run_beside_others(self) -> bool:
        """Tell whether its calls may run at the same time as their neighbours in the model's reply."""
        return self.effect is ToolEffect.READ if self.concurrent is None else self.concurrent


def tool_form(tool: ToolSpec) -> dict[str, JsonValue]:
    """Return a tool as JSON for digests. A tool that is not external has the one that it had before there were any."""
    form = full_form(tool)
    return form if tool.external is not None else {name: form[name] for name in form if name != "external"}


def result_text(result: JsonValue) -> str:
    """Return the text of a result for the model: a text as it is, anything else as compact JSON."""
    return result if isinstance(result, str) else compact_json(result).decode()


def failure_text(message: str) -> str:
    """Return the text of a failed call for the model."""
    return f"Error in tool call: {message}"


def misnamed(spec: ToolSpec, arguments: Mapping[str, JsonValue]) -> str | None:
    """Return which names of arguments a recorded tool lacks or does not know, in words; None when the names fit."""
    required, known = spec.parameters.get("required"), spec.parameters.get("properties")
    missing = [str(name) for name in required if name not in arguments] if isinstance(required, list) else []
    if missing:
        return f"they lack {', '.join(missing)}"
    is_closed = spec.parameters.get("additionalProperties") is False and "patternProperties" not in spec.parameters
    unknown = [name for name in arguments if name not in known] if is_closed and isinstance(known, dict) else []
    return f"there is no parameter {unknown[0]!r}" if unknown else None
