"""The accumulators that the fold fills from the events of a workflow.

They change only inside one call of `evolve_all`, which works on copies. What grows with the length of a run is held in
persistent collections, so a copy costs the same after ten nodes and after ten thousand.
"""

from msgspec import Struct, field, structs

from steptrail.domain.files import files_in
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import FlowStarted, LimitReached, NodeFailed, StepAnswered, Token
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.graph import Graph, graph_of
from steptrail.domain.flow.joins import Marking
from steptrail.domain.flow.nodes import Node
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.route import Route
from steptrail.domain.flow.task import Task, TaskKey, TaskPhase
from steptrail.domain.flow.views import Delta, Ended, View
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.persistent import Layers
from steptrail.domain.messages import FilePart
from steptrail.domain.prices import Cost
from steptrail.domain.shared.fold import ExecutionBase, FoldBase
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.usage import BilledUsage, billed_together

EndedBy = NodeFailed | LimitReached | StepAnswered | Request
"""The event or the request that brings a run to its end before its work is done."""


class Kept(Struct, frozen=True):
    """The result of a node, kept since `at`."""

    output: JsonValue
    route: Route | None
    at: int


class VisitFold(Struct):
    """A visit that has not ended well: it is open, or it was cut when its run ended.

    `execution` is the id of the execution that opened it, and `number` its place among all visits. `view` is what it
    sees, and `tried_before` how many tries of its node had ended when it opened. `items` is the length of the list of a
    map, `next_item` the first item that was not begun, and `results` are those of the items that have ended.
    `errors` are the recorded failures of items. `spent` is what all tries have used, before a retry of the run too: of
    the whole visit under `THE_VISIT`, and of each item that has not ended.
    `unknown` are the items, or None for the visit itself, that may have taken effect only once and were cut off.
    `changed` is what a person has changed before it began, which the visits after it see too. `streams` are those that
    its nodes have begun, `effects` the ids under which the newest were, by item, and `bills` what was told of these;
    those of the visit itself are under `THE_VISIT`. `acted` are the places of those that may have done in the world
    what counts only once: of `unsafe` tries until they fail, and of `keyed` ones and those that run a stream below,
    whose keys and streams are not those of a fork. `edited` are the places of those that were begun with arguments that
    a person made. `clock` shows how much of the timeout of a map is used, and runs while that of any of its items does.
    `may_begin` and `may_end` say that a person let it begin, or end.
    """

    node: str
    visit: int
    number: int
    execution: str
    inputs: tuple[Token, ...]
    view: View
    tried_before: int = 0
    items: int | None = None
    next_item: int = 0
    results: Layers[int, JsonValue] = field(default_factory=Layers[int, JsonValue])
    unknown: frozenset[int | None] = frozenset()
    changed: Delta = Delta()
    streams: Log[str] = field(default_factory=Log[str])
    effects: Layers[int, str] = field(default_factory=Layers[int, str])
    bills: Layers[int, BilledUsage] = field(default_factory=Layers[int, BilledUsage])
    acted: Layers[int, bool] = field(default_factory=Layers[int, bool])
    edited: frozenset[int] = frozenset()
    spent: Layers[int, BilledUsage] = field(default_factory=Layers[int, BilledUsage])
    errors: tuple[NodeError, ...] = ()
    clock: Stopwatch = Stopwatch()
    may_begin: bool = False
    may_end: bool = False

    def uncounted(self, bill: BilledUsage, place: int) -> BilledUsage:
        """Return what of a bill is not counted yet: that of a stream below grows from try to try."""
        counted = self.bills.get(place)
        return bill if counted is None else bill.beyond(counted)


class RunFold(ExecutionBase, kw_only=True):
    """The open execution, or the last one.

    `marking` says which tokens wait where. `views` are what is seen after the visits whose tokens wait, were taken by
    an open visit, or end a branch; `ended` is what each visit has written; `ends` are the nodes of the visits after
    which nothing comes, and `late` of those whose tokens a node that joins `any` has taken in without looking at
    them; all by the numbers of the visits. `open` are the visits that have not ended, by node, and
    `tasks` what they have open. `counts` is how often each node was visited since the start or the last retry, and
    `visits_of` the same since the start; `tries_of` is how many tries of it have ended. `kept` are the results of
    nodes with a cache. `order` numbers what becomes due or lands. `left` are the streams below of visits and items that
    have failed, and whose tries were cut off or had no end, each with the instant from which the run went on without
    it. The clock `active` shows the time in which any node ran.
    `acted` are the nodes whose open visit may have done what counts only once, noted so that no event looks at all open
    visits for them. `forkable_at` is the newest version at which there were none. `files` are those that came with
    events of the stream, by digest, also of executions before.
    """

    started: FlowStarted
    options: RunOptions
    wall_from: int
    errors: Log[NodeError] = field(default_factory=Log[NodeError])
    marking: Marking = Marking()
    views: dict[int, View] = {}
    ended: Layers[int, Ended] = field(default_factory=Layers[int, Ended])
    ends: Layers[int, str] = field(default_factory=Layers[int, str])
    late: Layers[int, str] = field(default_factory=Layers[int, str])
    counts: Layers[str, int] = field(default_factory=Layers[str, int])
    visits_of: Layers[str, int] = field(default_factory=Layers[str, int])
    tries_of: Layers[str, int] = field(default_factory=Layers[str, int])
    visits: int = 0
    attempts: int = 0
    open: dict[str, VisitFold] = {}
    tasks: dict[TaskKey, Task] = {}
    kept: Layers[str, Kept] = field(default_factory=Layers[str, Kept])
    order: int = 0
    active: Stopwatch = Stopwatch()
    ended_by: EndedBy | None = None
    ending_at: int = 0
    waiting_since: int = 0
    left: Layers[str, int] = field(default_factory=Layers[str, int])
    acted: frozenset[str] = frozenset()
    forkable_at: int = 0
    files: Layers[str, FilePart] = field(default_factory=Layers[str, FilePart])

    @property
    def graph(self) -> Graph:
        """The workflow as it was recorded, ready to be walked."""
        return graph_of(self.started.definition)

    def node(self, name: str, item: int | None = None) -> Node:
        """Return the node of this id; with an item of a map, the one inside it that is tried."""
        return working_node(self.graph.node(name), item)

    @property
    def retries(self) -> int:
        """How often the run was retried."""
        return self.ordinal - self.started.ordinal

    @property
    def finished_visits(self) -> int:
        """The number of visits that have ended well, or whose failure was recorded."""
        return len(self.ended)

    def running(self) -> list[Task]:
        """Return the tasks with a try that has not ended, in the order of their start."""
        return self._in(TaskPhase.RUNNING)

    def _in(self, phase: TaskPhase) -> list[Task]:
        return [task for task in self.tasks.values() if task.phase is phase]

    def maps(self) -> list[VisitFold]:
        """Return the open visits of maps."""
        return [visit for visit in self.open.values() if visit.items is not None]

    def follow_clock(self, visit: VisitFold, at: int, stopped_at: int | None = None) -> None:
        """Let the clock of the visit of a map run from `at`, or stand, as those of its items do.

        Those that stand have been stopped at `stopped_at`, or `at`.
        """
        if visit.items is None:
            return
        runs = any(task.clock.since is not None for task in reversed(self.tasks.values()) if task.node == visit.node)
        clock = visit.clock
        visit.clock = clock.started(at) if runs else clock.stopped(at if stopped_at is None else stopped_at)

    def held(self, visit: VisitFold) -> bool:
        """Tell whether a person is asked about a map itself, or has said that it is to be skipped."""
        return visit.items is not None and (visit.node, visit.visit, None) in self.tasks

    def rests(self, task: Task) -> bool:
        """Tell whether a task is an item of a map about which a person is asked."""
        visit = None if task.item is None else self.open.get(task.node)
        return visit is not None and self.held(visit)

    def goes_on(self, phase: TaskPhase) -> list[Task]:
        """Return the tasks in a phase that do not rest."""
        found = self._in(phase)
        held = {visit.node for visit in self.maps() if self.held(visit)} if found else ()
        return [task for task in found if task.item is None or task.node not in held] if held else found

    def next_order(self) -> int:
        """Return the next number in the order of what becomes due or lands."""
        self.order += 1
        return self.order

    def note_acted(self, visit: VisitFold, place: int, acted: bool) -> None:
        """Note whether an open visit, or an item of it, may have done what counts only once."""
        visit.acted = visit.acted.updated({place: True} if acted else {}, () if acted else (place,))
        self.acted = self.acted | {visit.node} if visit.acted else self.acted - {visit.node}

    def note_files(self, event: Event) -> None:
        """Note the files that an event came with."""
        if came := {part.digest: part for _, part in files_in(event)}:
            self.files = self.files.updated(came)

    def charge(self, bill: BilledUsage) -> None:
        """Add a bill to that of the run."""
        self.usage, self.model_usage = self.usage + bill, billed_together(self.model_usage, bill.models)

    @property
    def cost(self) -> Cost | None:
        """The cost of the run so far by the prices of its options; None without prices."""
        prices = self.options.prices
        return None if prices is None else prices.cost(self.model_usage, billed=self.usage)


class FlowFold(FoldBase[RunPhase, RunFold], kw_only=True):
    """A stream of a workflow."""

    flow_id: str
    phase: RunPhase = RunPhase.ABSENT

    def copied(self) -> "FlowFold":
        """Return a copy that can be changed without changing this one."""
        other = structs.replace(self)
        if self.execution is not None:
            run = other.execution = structs.replace(self.execution)
            run.views = dict(run.views)
            run.open = {node: structs.replace(visit) for node, visit in run.open.items()}
            run.tasks = {key: structs.replace(task) for key, task in run.tasks.items()}
        return other
