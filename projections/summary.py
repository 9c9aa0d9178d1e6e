"""One row of a list of runs."""

from steptrail.domain.base import Value
from steptrail.domain.prices import Cost
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus

__all__ = ["RunSummary"]


class RunSummary(Value, frozen=True, kw_only=True):
    """One session, or one stream of another kind, as a list shows it. Instants are microseconds of UTC.

    `kind` is `agent` for a session of an agent. `waits_for` is the kind of a wait that is not over, also while the
    session is paused in it. `paused_by` says who paused it while it is paused, `caller` for a run that was
    cancelled; a fork that begins paused has none. `parent` is the call that started the session, if it was one.
    `answered` says that the last execution stopped with an answer of its own, also at a limit. `cost` is that of
    the last execution up to its last recorded step, where prices are recorded.
    """

    kind: str = "agent"
    session_id: str
    name: str
    status: ExecutionStatus = ExecutionStatus.PENDING
    stop_reason: str | None = None
    resolved_by: str | None = None
    answered: bool = False
    executions: int = 0
    steps: int = 0
    active_seconds: float = 0.0
    cost: Cost | None = None
    waits_for: str | None = None
    waits_until: int | None = None
    paused_by: str | None = None
    parent: ParentRef | None = None
    damage: str | None = None
    started_at: int = 0
    updated_at: int = 0

    @property
    def stream(self) -> str:
        """The id of the stream, with its prefix."""
        return f"{self.kind}:{self.session_id}"
