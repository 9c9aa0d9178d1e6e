"""Events of a run of a workflow: it began, a worker took it up, it was retried, a limit was reached."""

from typing import Literal

from steptrail.domain.base import Count, Positive
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import FilePart, Message
from steptrail.domain.shared.forks import Forked
from steptrail.domain.shared.run import SegmentEnd


class FlowStarted(Event, frozen=True, kw_only=True):
    """An execution began: the nodes of the workflow's entry are due.

    It opens a segment. Without a `worker` it opens none: it waits for one, which opens `segment` + 1. `definition` is
    the whole workflow as text, and `digest` names it. `locator` and `use` are the texts by which the command line found
    it and its code. `context` is what the caller says of the run. `library` is the
    version of Steptrail that began it. `files` are those that came with it, for which objects in the values stand.
    """

    TYPE = "flow.started.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"artifacts", "context", "input", "messages", "vars"})
    STATE = frozenset(
        {"by", "definition", "digest", "execution_id", "flow", "key", "library", "locator", "options", "use", "worker"}
    )
    execution_id: str
    ordinal: Positive
    segment: Count
    worker: str | None
    library: str
    flow: str
    definition: str
    digest: str
    options: RunOptions
    input: JsonValue = None
    vars: dict[str, JsonValue] = {}
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    files: tuple[FilePart, ...] = ()
    context: JsonValue = None
    key: str | None = None
    locator: str | None = None
    use: tuple[str, ...] = ()
    by: str


class FlowForked(Forked, frozen=True, kw_only=True):
    """A stream was opened as a fork. Its past is the first `version` events of `source`, which are not copied.

    The visits that were under way there begin anew here. `definition`, `fingerprint` and `options` are the text and the
    digest of the workflow of the last execution, and its options.
    """

    TYPE = "flow.forked.v1"
    KIND = EventKind.INTENT
    STATE = Forked.STATE | {"definition", "fingerprint", "options"}
    definition: str
    fingerprint: str
    options: RunOptions


class FlowResumed(Event, frozen=True, kw_only=True):
    """The execution goes on in a new segment.

    `changes` names what differs between the recorded workflow and the one that the worker brings. `options` is set when
    the caller gave new ones. `was_productive` says that the last segment made progress or did not end in a crash.
    `moved` are the streams that rested and go on by now: those of the other nodes are not looked after. None for all.
    """

    TYPE = "flow.resumed.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"by", "changes", "key", "library", "moved", "options", "worker"})
    segment: Positive
    worker: str
    library: str
    ended_by: SegmentEnd
    was_productive: bool
    changes: tuple[str, ...] = ()
    options: RunOptions | None = None
    moved: tuple[str, ...] | None = None
    by: str
    key: str | None = None


class FlowRetried(Event, frozen=True, kw_only=True):
    """A run that failed or was stopped goes on in the next execution: what had failed is due again.

    `visits` are the numbers of the visits that are due again. What was finished stays finished. Without a `worker`
    it is pending: a worker begins with it.
    """

    TYPE = "flow.retried.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"by", "changes", "execution_id", "key", "library", "options", "reason", "worker"})
    execution_id: str
    ordinal: Positive
    segment: Positive
    worker: str | None
    library: str
    visits: tuple[int, ...]
    changes: tuple[str, ...] = ()
    options: RunOptions | None = None
    reason: str | None = None
    by: str
    key: str | None = None


FlowLimit = Literal[
    "max_input_tokens",
    "max_output_tokens",
    "max_total_tokens",
    "max_cost_usd",
    "timeout",
    "cumulative_timeout",
    "max_visits",
    "crash_loop",
    "step_timeout",
]
"""A limit of a run or of a node, by the name of its setting."""


class LimitReached(Event, frozen=True, kw_only=True):
    """A limit of the run, or of a visit of a node, was passed. `at_most` is the text of a number.

    `actual` is one too, with what cannot be told behind it: model calls without a price.
    """

    TYPE = "limit.reached.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"actual", "at_most", "node"})
    limit: FlowLimit
    scope: Literal["node", "run"]
    node: str | None = None
    visit: Positive | None = None
    at_most: str
    actual: str

    @property
    def said(self) -> str:
        """The limit in words: what is allowed, and what was used."""
        return f"{self.limit} is {self.at_most}, and it was {self.actual}"
