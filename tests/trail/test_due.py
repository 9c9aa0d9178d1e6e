"""What can go on without anybody asking: waits that are over, and runs whose process died."""

from steptrail import AgentBuilder, ErrorPolicy, Steptrail
from steptrail.domain.agent.standing import summary
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.due import Due, DueCause
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.index import as_listed
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel


class Shifted(SystemClock):
    """The clocks of this machine, `hours` ahead: what another process sees later."""

    def __init__(self, hours: float) -> None:
        self._ahead = round(hours * 3_600_000_000)

    def utc(self) -> int:
        return super().utc() + self._ahead


class _Died(BaseException):
    """Stands for the death of the process."""


def _die_before_the_model(point: str) -> None:
    if point == "before-inference":
        raise _Died


def _agent() -> Agent:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(3600, max_seconds=3600))
    builder = AgentBuilder("patient").with_model(ScriptedModel([ConnectionError("down"), "up again"]))
    return builder.with_error_policy(policy).with_limits(Limits(timeout=None)).build()


async def test_a_long_wait_ends_the_call_and_is_due_when_its_time_has_come(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        waiting = await trail.run(_agent(), "hello", session="s")
        assert waiting.status is ExecutionStatus.WAITING
        assert await trail.due() == []
        assert (await trail.session("s").resume(_agent())).status is ExecutionStatus.WAITING
    later = Environment(store=open_store(store_url), clock=Shifted(hours=1.1))
    async with Steptrail(later) as trail:
        (row,) = await trail.due()
        assert (row.session_id, row.due) == ("s", Due(cause=DueCause.TIMER, since=row.due_at))
        done = await trail.session("s").resume(_agent())
        assert (done.status, done.output) == (ExecutionStatus.COMPLETED, "up again")
        assert await trail.due() == []


async def test_what_is_said_to_a_session_that_waits_brings_nobody_on_before_the_wait_is_over(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(_agent(), "hello", session="s")
        waiting = await trail.session("s").post(_agent(), "Are you there?")
        assert waiting.status is ExecutionStatus.WAITING
        assert await trail.due() == []
        (row,) = await trail.runs()
        assert not row.differences(as_listed(summary(await trail.session("s").state())))
    later = Environment(store=open_store(store_url), clock=Shifted(hours=1.1))
    async with Steptrail(later) as trail:
        (row,) = await trail.due()
        assert (row.session_id, row.due) == ("s", Due(cause=DueCause.TIMER, since=row.due_at))
        assert (await trail.session("s").resume(_agent())).output == "up again"


async def test_a_run_whose_process_died_is_due_and_one_that_is_owned_is_not(store_url: str) -> None:
    async with Steptrail(Environment(store=open_store(store_url), reach=_die_before_the_model)) as dying:
        try:
            await dying.run(_agent(), "hello", session="s")
        except _Died:
            pass
    async with Steptrail.open(store_url) as trail:
        assert [(row.session_id, row.due) for row in await trail.due()] == [("s", Due(cause=DueCause.CRASHED))]
        lease = await trail.store.acquire("agent:s", owner="somebody")
        assert await trail.due() == []
        await lease.release()


async def test_lists_say_what_the_log_says_of_a_session_at_rest_to_which_several_things_were_said(
    store_url: str,
) -> None:
    agent = _agent()
    async with Steptrail.open(store_url) as trail:
        session = await trail.start(agent, "go", session="s")
        await session.pause(by="ops")
        for text in ("And?", "And now?"):
            await session.post(agent, text)
        (row,) = await trail.runs()
        assert not row.differences(as_listed(summary(await session.state())))
        assert [(each.session_id, each.due_at) for each in await trail.due()] == [("s", row.due_at)]
