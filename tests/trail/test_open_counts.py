"""How many runs are open, by status, however many there are: what metrics tell."""

from steptrail.domain.kernel.record import EMPTY_STREAM, Commit
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.lists import open_counts
from steptrail.runtime.kernel.ports import Lease
from steptrail.testing.store_samples import AT, Noted, commit_of

OPEN = {
    "pending": (StandingState.PENDING, ExecutionStatus.PENDING, 3),
    "in_progress": (StandingState.WORKING, ExecutionStatus.IN_PROGRESS, 5),
    "waiting": (StandingState.RESTING, ExecutionStatus.WAITING, 2),
    "paused": (StandingState.PAUSED, ExecutionStatus.PAUSED, 1),
    "done": (StandingState.DONE, ExecutionStatus.COMPLETED, 4),
}


async def test_what_is_open_is_counted_by_status_and_a_run_whose_owner_is_gone_is_crashed() -> None:
    store = open_store("sqlite:///:memory:")
    try:
        assert await open_counts(store) == {}
        leases: list[Lease] = []
        for name, (standing, status, many) in OPEN.items():
            for number in range(many):
                row = RunSummary(
                    kind="agent",
                    session_id=f"{name}-{number}",
                    name="desk",
                    status=status,
                    standing=standing,
                    executions=1,
                    started_at=AT,
                    updated_at=AT,
                    version=1,
                )
                commit = commit_of(f"c-{row.session_id}", Noted())
                await store.append(row.stream, EMPTY_STREAM, Commit(commit.head, commit.events, row))
                if standing is StandingState.WORKING and number < 3:
                    leases.append(await store.acquire(row.stream, owner="here"))
        assert await open_counts(store) == {"pending": 3, "in_progress": 3, "waiting": 2, "paused": 1, "crashed": 2}
        for lease in leases:
            await lease.release()
    finally:
        await store.close()
