"""The commands to a run of a workflow: requests from outside, in the imperative. Only `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from dataclasses import dataclass, field
from typing import Literal, cast

from steptrail.domain.errors import NotStorable
from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import OwnersCommand
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.storable import storable

__all__ = ["Brought", "FlowCommand", "Resume", "Retry", "Settle", "Start", "Verdict"]

Verdict = Literal["completed", "failed", "rerun"]
"""A person's verdict on a node whose outcome is unknown: it completed, it failed, or it is to run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A workflow as a caller brings it: the definition, its recorded text, and the digest of that."""

    definition: FlowDefinition
    text: str
    digest: str


class _FromOutside:
    """The base of commands with data from outside. Raises `NotStorable` for data that could not be read back."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in ("input", "vars", "context", "metadata", "output", "message", "reason", "by", "key"):
            value = getattr(self, name, None)
            if isinstance(value, str | int | float | list | dict | tuple):
                # This is also a copy: the command does not change when the caller changes its own data afterwards.
                object.__setattr__(self, name, storable(cast("object", value), name))
        if "\0" in getattr(self, "by", ""):
            # It becomes a column of text, which PostgreSQL ends there.
            raise NotStorable("by", "a name with a NUL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(_FromOutside):
    """Open an execution with an input. A stream that does not exist is opened with it; `new` rejects one that does.

    Without a `worker` the execution is pending: a worker begins with it.
    """

    flow: Brought
    worker: str | None
    options: RunOptions
    input: JsonValue = None
    vars: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    context: JsonValue = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    parent: ParentRef | None = None
    new: bool = False
    by: str = "user"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_FromOutside):
    """Go on with the open execution in a new segment.

    `flow` is what the worker brings, None for a worker without the code. `options` replace those of the execution.
    """

    worker: str
    flow: Brought | None = None
    ended_by: SegmentEnd | None = None
    options: RunOptions | None = None
    strict: bool = False
    by: str = "user"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(_FromOutside):
    """Open an execution that goes on where the last one failed or was stopped: what had failed is due again."""

    worker: str
    flow: Brought
    options: RunOptions | None = None
    strict: bool = False
    reason: str | None = None
    by: str = "user"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(_FromOutside):
    """Give a verdict on the node with the effect id, whose outcome is unknown."""

    effect_id: str
    by: str
    verdict: Verdict
    output: JsonValue = None
    message: str | None = None


FlowCommand = Start | Resume | Retry | Settle | OwnersCommand
