"""A task: one thing that a run has open. It is a visit of a node, or one item of a map.

What has ended for good is no task any more: its traces are in the views of the run.
"""

from enum import StrEnum
from typing import TypedDict

from msgspec import Struct

from steptrail.domain.flow import events
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.tools import ToolEffect

THE_VISIT = -1
"""In place of the index of an item: the visit itself."""

TaskKey = tuple[str, int, int | None]
"""The node, the number of the visit among those of the node, and the index of the item of a map."""


class OfTry(TypedDict):
    """The fields by which an event says which try it is about."""

    node: str
    visit: int
    item: int | None
    attempt: int


def of_try(key: TaskKey, attempt: int) -> OfTry:
    """Return the fields for a try of a task."""
    node, visit, item = key
    return {"node": node, "visit": visit, "item": item, "attempt": attempt}


Landing = (
    events.NodeAttemptCompleted
    | events.NodeAttemptFailed
    | events.NodeAttemptInterrupted
    | events.NodeEvaluated
    | events.HumanAnswered
    | events.HumanExpired
    | events.ApprovalDenied
    | events.ApprovalExpired
)
"""The event with which a task has landed: nothing has been concluded from it yet."""


class TaskPhase(StrEnum):
    """The phase of a task."""

    DUE = "due"
    """It is to be started, or started again."""
    RUNNING = "running"
    """A try was started and has not ended."""
    LANDED = "landed"
    """It has a result, a failure or an answer, from which the conclusion is to be drawn."""
    RETRYING = "retrying"
    """Another try is scheduled."""
    SUSPENDED = "suspended"
    """The stream that it runs rests."""
    PARKED = "parked"
    """A person has to say what happened."""
    ASKED = "asked"
    """A person is asked: for a yes, for an answer, or whether a step goes on."""


class Task(Struct):
    """One thing that a run has open.

    `order` is the place in the order of what became due or landed. `attempt` is the number of the newest try.
    `failures` counts those that failed, and `interruptions` those that were cut off. `clock` shows how much of its
    timeout is used. `asked_at` is the instant of the newest question or wait, `asked_at_version` the version of its
    event, and `answered_at` the instant of the answer. `skipped` is the answer of a person who has the visit skipped.
    `arguments` are those that a person made of the arguments that were approved. `begun_under` is the id under which
    the newest stream below was begun before the run was retried; None when there was no such stream, or no such retry.
    """

    node: str
    visit: int
    item: int | None = None
    phase: TaskPhase = TaskPhase.DUE
    order: int = 0
    attempt: int = 0
    failures: int = 0
    interruptions: int = 0
    effect: ToolEffect | None = None
    effect_id: str = ""
    in_doubt: bool = False
    clock: Stopwatch = Stopwatch()
    landing: Landing | None = None
    retry: events.NodeRetryScheduled | None = None
    stream: str | None = None
    runs_a_stream: bool = False
    until: int | None = None
    approval: Approval | None = None
    request: events.HumanRequested | None = None
    held: events.StepPoint | None = None
    skipped: events.StepAnswered | None = None
    arguments: dict[str, JsonValue] | None = None
    asked_at: int = 0
    asked_at_version: int = 0
    answered_at: int = 0
    begun_under: str | None = None

    @property
    def key(self) -> TaskKey:
        """The key that tells the task from all others of the execution."""
        return self.node, self.visit, self.item

    @property
    def place(self) -> int:
        """The place of the task among those of its visit: the number of its item."""
        return THE_VISIT if self.item is None else self.item

    @property
    def goes_on_below(self) -> bool:
        """Tell whether the next try goes on with the stream that it ran before the run was retried."""
        return self.begun_under is not None and not self.failures

    def next_stream_effect(self, effect: str, retries: int) -> str:
        """Return the id under which the next try runs a stream of its own, given how often the run was retried.

        It is the id of its `effect`. After a failure it is another one, because the same would return the stored
        failure. The first try after a retry of the run goes on with the stream before.
        """
        if self.begun_under is not None and self.goes_on_below:
            return self.begun_under
        return f"{effect}:r{retries}.{self.failures}" if retries or self.failures else effect
