"""The hands of a worker take a run once, however often they are told of it."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.errors import ConfigurationError
from steptrail.infrastructure.flow.means import flow_means
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, NotTaken, Work
from steptrail.runtime.kernel.room import Room
from steptrail.workflow import Envelope, Workflow
from tests.trail.workers import Desk


async def test_hands_that_are_given_a_run_while_its_try_ends_do_not_try_it_again(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[str]()
    looked, may_go_on = asyncio.Event(), asyncio.Event()

    async def stays(row: RunSummary) -> None:
        tries.append(row.session_id)

    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.start(desk.agent(), "go", session="s")
        (row,) = await trail.due()
        hands = Hands(Environment(store=trail.store), lambda row: partial(stays, row), room=Room(2), grace=1.0)
        version = trail.store.version

        async def late(stream: str) -> int:
            looked.set()
            await may_go_on.wait()
            return await version(stream)

        with monkeypatch.context() as slow:
            slow.setattr(trail.store, "version", late)
            second = asyncio.create_task(hands.take(row))
            await looked.wait()
        first = await hands.take(row)
        assert isinstance(first, asyncio.Task)
        await first
        may_go_on.set()
        assert await second is NotTaken.LEFT
        await hands.drain()
    assert tries == ["s"]


async def test_hands_that_are_given_a_run_twice_at_once_take_it_once(tmp_path: Path, desk: Desk) -> None:
    gate = asyncio.Event()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.start(desk.agent(), "go", session="s")
        (row,) = await trail.due()
        hands = Hands(Environment(store=trail.store), lambda _: gate.wait, room=Room(2), grace=1.0)
        taken = await asyncio.gather(hands.take(row), hands.take(row))
        assert [each for each in taken if isinstance(each, NotTaken)] == [NotTaken.HELD]
        gate.set()
        await hands.drain()
        assert await hands.take(row) in {NotTaken.LEFT, NotTaken.ENDING}


async def test_a_worker_that_has_ended_refuses_to_begin_again_and_does_not_do_nothing_in_silence(desk: Desk) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        worker = trail.work(desk.agent())
        async with worker:
            with pytest.raises(ConfigurationError, match=r"entered before: make another one by `trail\.work"):
                await worker.__aenter__()
        with pytest.raises(ConfigurationError, match=r"entered before: make another one by `trail\.work"):
            async with worker:
                pytest.fail("it does nothing")


async def test_hands_that_come_too_late_for_a_run_that_others_have_ended_do_not_say_that_it_was_left(
    tmp_path: Path, desk: Desk
) -> None:
    # given
    told = list[str]()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.start(desk.agent(), "go", session="s")
        (row,) = await trail.due()
        await trail.session("s").resume(desk.agent())
        env = Environment(store=trail.store)

        def carry(row: RunSummary) -> Work:
            return lambda: Steptrail(env).session(row.session_id).resume(desk.agent())

        ours = Hands(env, carry, room=Room(2), grace=1.0, on_left=lambda row, _: told.append(row.session_id))
        # when
        task = await ours.take(row)
        assert isinstance(task, asyncio.Task)
        await task
    # then
    assert (told, dict(ours.left)) == ([], {})


async def test_a_workflow_that_others_have_ended_is_as_it_is_for_a_worker_that_lacks_its_code(tmp_path: Path) -> None:
    def fails(envelope: Envelope) -> None:
        raise ValueError("no")

    # given
    begun_with = Workflow("order").function("a", fails).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(begun_with, "go", session="r")
        control = FlowControl(Environment(store=trail.store), "r", flow_means())
        # when
        ended = await control.resume(Workflow("order").function("b", fails).build(), obeys_pause=True)
    # then
    assert ended.status is ExecutionStatus.FAILED
