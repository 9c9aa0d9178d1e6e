"""One stream as a list shows it. The same values are the row of the stream in the index of a store."""

from steptrail.domain.base import Value
from steptrail.domain.kernel.standing import OPEN, StandingState, Wait
from steptrail.domain.prices import Cost
from steptrail.domain.shared.due import Due
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus

_GROWN = ("steps", "active_seconds", "cost", "updated_at", "version", "is_crashed", "due", "damage")


class RunSummary(Value, frozen=True, kw_only=True):
    """One session, or one stream of another kind, as of its event `version`. Instants are microseconds of UTC.

    A machine makes it from a state. The store keeps the one of the commit that changed the standing last, so what it
    says of the standing is always true, and `steps`, `active_seconds`, `cost` and `updated_at` are those of `version`.

    `kind` is `agent` for a session of an agent, and `name` the name of the agent that the last execution was begun
    with, by which a worker knows whether it can carry the session on. `tenant` is the one that its metadata names, as
    the read models have it; None for none. `standing` is where the stream stands for a process that wants to own it,
    and `status` the same for people: a run is in progress while its owner sits a short wait out. `due_at` is the
    instant from which an owner can go on without help; None when a command or another stream has to come first.
    `paused_by` says who paused it while it is paused, `caller` for a run that was cancelled; a fork that begins paused
    has none. `parent` is the call that started the session, if it was one. `answered` says that the last execution
    stopped with an answer of its own, also at a limit, and `recorded_errors` after how many failures of nodes it went
    on; 0 while it is open. `cost` is that of the last execution, where prices are recorded.

    `fork_of` is the stream whose past it shares, for a fork. `is_erased` says that only this row is left of it:
    its `status` says nothing then.

    `is_crashed`, `due` and `damage` are marks, and come from elsewhere: a run is open and no process runs it; a list of
    what is due says why; a reader has met a record that it could not read.
    """

    kind: str
    session_id: str
    name: str = ""
    tenant: str | None = None
    status: ExecutionStatus = ExecutionStatus.PENDING
    standing: StandingState = StandingState.ABSENT
    stop_reason: str | None = None
    resolved_by: str | None = None
    answered: bool = False
    recorded_errors: int = 0
    due_at: int | None = None
    waits: tuple[Wait, ...] = ()
    paused_by: str | None = None
    executions: int = 0
    steps: int = 0
    active_seconds: float = 0.0
    cost: Cost | None = None
    parent: ParentRef | None = None
    fork_of: str | None = None
    started_at: int = 0
    updated_at: int = 0
    version: int = 0
    is_crashed: bool = False
    due: Due | None = None
    damage: str | None = None
    is_erased: bool = False

    @property
    def stream(self) -> str:
        """The id of the stream, with its prefix."""
        return f"{self.kind}:{self.session_id}"

    def differences(self, other: "RunSummary") -> list[str]:
        """Return the fields in which two rows of a stream differ, but for those that grow with each step."""
        fields = [name for name in self.__struct_fields__ if name not in _GROWN]
        return [name for name in fields if getattr(self, name) != getattr(other, name)]

    @property
    def is_open(self) -> bool:
        """Tell whether a run has begun and not ended."""
        return self.standing in OPEN

    @property
    def waits_for(self) -> str | None:
        """The kind of the first wait that was not answered, also while the run is paused; None when there is none."""
        return next((wait.kind for wait in self.waits if wait.answered_at is None), None)

    @property
    def waits_until(self) -> int | None:
        """The instant at which that wait ends by itself; None when it does not."""
        return next((wait.due_at for wait in self.waits if wait.answered_at is None), None)
