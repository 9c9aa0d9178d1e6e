"""The memory that the read model of runs has of one stream: counts, ids and times, and nothing that anybody said.

A row that later events change is a dictionary of the memory. Each change puts it again, and it is written as it is when
a batch ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.flow.events import FlowForked
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import PriceTable
from steptrail.domain.shared.events import ExecutionFinished, WaitStarted
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.usage import BilledUsage
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Row, Scalar
from steptrail.projections.runs_view.signature import ErrorKind
from steptrail.projections.runs_view.spending import Spending


@dataclass(slots=True)
class RestMemory:
    """A rest that lasts: the columns of its row that are known from its beginning."""

    version: int
    kind: str
    is_for_people: bool
    started_at: int
    until: int | None = None
    by: str | None = None


@dataclass(slots=True)
class InferenceMemory:
    """A model call that has not ended: the model that was asked, and its row."""

    model: str
    row: dict[str, Scalar]


@dataclass(slots=True)
class CallMemory:
    """A tool call of the open step, with its row.

    `attempt` is the number of the newest try, which began with the event `try_version`. `ended` is what a try has come
    to after which another may come: the columns of its row in `attempts`. `billed` is the part of the bill of a stream
    below that is counted already.
    """

    tool: str
    phase: CallPhase
    row: dict[str, Scalar]
    attempt: int = 0
    try_version: int = 0
    ended: Row | None = None
    approval: str | None = None
    error: ErrorKind | None = None
    billed: BilledUsage = BilledUsage()


@dataclass(slots=True)
class StepMemory:
    """The open step of an agent, with its row.

    `used` is the bill of its model call, None without a reply; `error` says how that call failed, or that its
    reply was cut while it asked for tools.
    """

    number: int
    row: dict[str, Scalar]
    takes_answers_in_calls: bool = False
    inference: InferenceMemory | None = None
    used: Spending | None = None
    error: ErrorKind | None = None
    calls: list[CallMemory] = field(default_factory=list[CallMemory])


@dataclass(slots=True)
class TryMemory:
    """The open part of a visit of a node, or of one item of a map. `row` is the row of its newest try.

    `attempt` is the number of that try. It is None while none is open. `child` is the stream that it runs; None for a
    try that runs none.
    """

    row: dict[str, Scalar] = field(default_factory=dict[str, Scalar])
    attempt: int = 0
    is_running: bool = False
    is_parked: bool = False
    child: str | None = None


@dataclass(slots=True)
class VisitMemory:
    """A visit of a node that has not ended well, with its row."""

    node: str
    visit: int
    row: dict[str, Scalar]
    bill: Spending = field(default_factory=Spending)
    tries: dict[int | None, TryMemory] = field(default_factory=dict[int | None, TryMemory])


@dataclass(slots=True)
class RunMemory:
    """The open execution, or the last one. `version` and `at` are the place and the instant of its newest event.

    `standing` is pending or paused, and None in between. `wait` is the wait that is not over, also in a pause. `rest`
    is the rest that lasts. `seen` is the place and the instant of the newest event that shows that an owner lives.
    `own` is its bill without the streams below, `below` the bill of those, and `wasted` the part of `own` that failed
    steps used. `failure` is the error of the newest step, if that failed, and `raised` that of the newest criterion or
    hook that raised instead of voting.

    Of an agent, `answers` is the name of the calls whose arguments are the answer, and `kinds_below` the kind of the
    streams that a tool runs. Of a workflow, `definition` is its text, and `visits` are those that have not ended well,
    by node; `bills` are the parts of the bills of streams below that are counted already, also in the execution that
    this one retries.
    """

    stream: str
    kind: str
    parent: ParentRef | None
    execution: int
    ordinal: int
    name: str
    tenant: str
    started_at: int
    first_version: int
    version: int
    at: int
    model: str | None = None
    fingerprint: str | None = None
    worker: str | None = None
    prices: PriceTable | None = None
    standing: ExecutionStatus | None = None
    wait: WaitStarted | None = None
    rest: RestMemory | None = None
    seen: tuple[int, int] = (0, 0)
    segments: int = 0
    steps: int = 0
    tool_calls: int = 0
    errors: int = 0
    retries: int = 0
    approvals: int = 0
    active: Stopwatch = field(default_factory=Stopwatch)
    idle_us: int = 0
    people_us: int = 0
    own: Spending = field(default_factory=Spending)
    below: Spending = field(default_factory=Spending)
    wasted: Spending = field(default_factory=Spending)
    failure: ErrorKind | None = None
    raised: ErrorKind | None = None
    finished: ExecutionFinished | None = None
    ended_at: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: str | None = None
    kinds_below: Mapping[str, str] = field(default_factory=dict[str, str])
    step: StepMemory | None = None
    newest_step: int = 0
    definition: str = ""
    visits: dict[str, VisitMemory] = field(default_factory=dict[str, VisitMemory])
    bills: dict[str, BilledUsage] = field(default_factory=dict[str, BilledUsage])

    @property
    def calls(self) -> Sequence[CallMemory]:
        """The calls of its open step."""
        return self.step.calls if self.step is not None else ()

    @property
    def status(self) -> ExecutionStatus:
        """Its status."""
        if self.finished is not None:
            return self.finished.status
        if self.standing is not None:
            return self.standing
        return ExecutionStatus.IN_PROGRESS if self.wait is None else ExecutionStatus.WAITING


@dataclass(slots=True)
class StreamMemory:
    """One stream: the open execution or the last one, and what the next one will need.

    `metadata` holds the entries that say of tags and tenant, and no others. `forked` is the event with which a fork of
    runs of a workflow began: what it says of the workflow holds for the retry of a run of the past. `places` maps the
    number of each execution to the position in the log at which it began.
    """

    stream: str
    kind: str
    name: str = ""
    parent: ParentRef | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    run: RunMemory | None = None
    forked: FlowForked | None = None
    places: dict[int, int] = field(default_factory=dict[int, int])


class RunMoment(Struct, frozen=True):
    """The place and the instant of an event, and where its handlers write what it changes."""

    position: int
    version: int
    at: int
    changes: Changes
