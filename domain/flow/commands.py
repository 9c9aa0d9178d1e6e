"""The commands to a run of a workflow: requests from outside, in the imperative. Only `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from typing import Literal

from msgspec import Struct

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import FromOutside, OwnersCommand
from steptrail.domain.messages import FilePart, Message
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.scores import GiveScore

Verdict = Literal["completed", "failed", "rerun"]
"""A person's verdict on a node whose outcome is unknown: it completed, it failed, or it is to run again."""


class Brought(Struct, frozen=True, kw_only=True):
    """A workflow as a caller brings it: the definition, its recorded text, and the digest of that with those below it.

    `locator` is the text by which the command line found it, and `use` those by which it found its code.
    """

    definition: FlowDefinition
    text: str
    digest: str
    locator: str | None = None
    use: tuple[str, ...] = ()


class StartFlow(FromOutside, frozen=True, kw_only=True):
    """Open an execution with an input. A stream that does not exist is opened with it; `new` rejects one that does.

    Without a `worker` the execution is pending: a worker begins with it. `files` are those, with their bytes, for which
    objects in the values stand.
    """

    DOING = "run"
    flow: Brought
    worker: str | None
    options: RunOptions
    input: JsonValue = None
    vars: dict[str, JsonValue] = {}
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    files: tuple[FilePart, ...] = ()
    context: JsonValue = None
    metadata: dict[str, JsonValue] = {}
    parent: ParentRef | None = None
    new: bool = False
    by: str = "user"
    key: str | None = None

    @property
    def runs(self) -> str | None:
        """The workflow that its key stands for. A child has the key of the call that runs it, whatever its name now."""
        return self.flow.definition.name if self.parent is None else None


class ResumeFlow(FromOutside, frozen=True, kw_only=True):
    """Go on with the open execution in a new segment.

    `flow` is what the worker brings, None for a worker without the code. `options` replace those of the execution.
    `moved` are the streams below that rested and go on by now; None where nobody has looked.
    """

    DOING = "resume"
    worker: str
    flow: Brought | None = None
    ended_by: SegmentEnd | None = None
    options: RunOptions | None = None
    moved: tuple[str, ...] | None = None
    strict: bool = False
    by: str = "user"
    key: str | None = None


class RetryFlow(FromOutside, frozen=True, kw_only=True):
    """Open an execution that goes on where the last one failed or was stopped: what had failed is due again.

    Without a `worker` the execution is pending, and the `flow` that the worker brings is told when it begins.
    """

    DOING = "retry"
    worker: str | None
    flow: Brought | None
    options: RunOptions | None = None
    strict: bool = False
    reason: str | None = None
    by: str = "user"
    key: str | None = None


class SettleNode(FromOutside, frozen=True, kw_only=True):
    """Give a verdict on the node with the effect id, whose outcome is unknown."""

    effect_id: str
    by: str
    verdict: Verdict
    output: JsonValue = None
    files: tuple[FilePart, ...] = ()
    message: str | None = None
    reason: str | None = None


class AnswerQuestion(FromOutside, frozen=True, kw_only=True):
    """Answer the question of a human node, at the instant `at` (microseconds of UTC).

    `to` is the id of the node, or that of the request. With a `digest` the answer is to a question of that digest only.
    """

    DOING = "answer"
    to: str
    by: str
    at: int
    choice: str | None = None
    approved: bool | None = None
    data: JsonValue = None
    files: tuple[FilePart, ...] = ()
    notes: str | None = None
    digest: str | None = None
    key: str | None = None


class AnswerStep(FromOutside, frozen=True, kw_only=True):
    """Say how a visit goes on that is held before it begins, or after it has ended; at `at` (microseconds of UTC).

    Before it, variables may be set for it, then removed. `targets` name the next nodes when a node that chooses is
    skipped.
    """

    DOING = "step"
    node: str
    action: Literal["continue", "skip", "abort"]
    by: str
    at: int
    sets: dict[str, JsonValue] = {}
    files: tuple[FilePart, ...] = ()
    unsets: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    reason: str | None = None
    key: str | None = None


FlowCommand = (
    StartFlow
    | ResumeFlow
    | RetryFlow
    | Fork
    | SettleNode
    | AnswerQuestion
    | AnswerStep
    | Approve
    | Deny
    | GiveScore
    | OwnersCommand
)
