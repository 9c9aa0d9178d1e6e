"""What every machine can do on every store, as a pytest class.

A machine brings its `Subject`: a run that counts to three in a `World`, and asks a person before it counts two if it is
to. What the world refuses is tried again an hour later.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy
from steptrail.domain.kernel.commands import CALLER, Pause, Stop, Unpause
from steptrail.domain.kernel.standing import Standing, StandingState
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.segment import Begin, Perform
from tests.runner.kit import Crash, HandClock, crash_at

HOUR = 3600
_PATIENCE = 60.0


class World:
    """What is counted outside. It may hang at one number, until it is told to go on, or refuse one once."""

    def __init__(self) -> None:
        self.counted: list[int] = []
        self.hangs_at = self.refuses = 0
        self.hangs, self.go_on = asyncio.Event(), asyncio.Event()

    async def count(self, number: int) -> None:
        """Count one number."""
        if number == self.refuses:
            self.refuses = 0
            raise ConnectionError("the world is away")
        self.counted.append(number)
        if number == self.hangs_at:
            self.hangs.set()
            await self.go_on.wait()


class Subject(NamedTuple):
    """One stream of a machine in one process."""

    control: StreamControl[Any, Any, Any, Any]
    begin: Callable[[str | None], Begin[Any, Any]]
    perform: Perform[Any, Any, Any]
    approve: Callable[[Any], Any]
    fork: Callable[[str], Any] | None = None


class Process:
    """What one process does with a stream."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.control = subject, subject.control

    async def run(self, key: str | None = None) -> Standing:
        """Begin a run and drive it."""
        return self._standing(await self.control.own(self.subject.begin(key), self.subject.perform, key=key))

    async def resume(self, *, take_over: bool = False, looked: Any = None, obeys_pause: bool = False) -> Standing:
        """Go on with what is recorded, as who has looked at this journal before, or as a worker, who obeys a pause."""
        resumed = self.control.resume(
            self.subject.perform, take_over=take_over, journal=looked, obeys_pause=obeys_pause
        )
        return self._standing(await resumed)

    async def request(self, command: Pause | Stop) -> Standing:
        """Ask for a pause or a stop."""
        return self._standing(await self.control.request(command))

    async def unpause(self) -> Standing:
        """Lift the pause."""
        return self._standing(await self.control.unpause(Unpause(by="ben")))

    async def approve(self) -> Standing:
        """Say yes to what is asked."""
        state = (await self.control.existing()).committed
        return self._standing(await self.control.tell(self.subject.approve(state)))

    async def looks(self) -> Standing:
        """Return where the stream stands as it is stored."""
        return self._standing((await self.control.journal()).committed)

    def _standing(self, state: Any) -> Standing:
        standing: Standing = self.control.machine.control.standing(state)
        return standing


class Scene:
    """A store, a world, a clock that stands still, and as many processes as are asked for."""

    def __init__(self, contract: "MachineContract", url: str) -> None:
        self._contract, self.url = contract, url
        self.clock, self.world = HandClock(), World()
        self.environments: list[Environment] = []

    def process(self, name: str = "one", *, reach: Reach = no_faults, asks: bool = False) -> Process:
        """Return another process with a store of its own."""
        environment = Environment(
            store=open_store(self.url), clock=self.clock, reach=reach, worker=f"w{len(self.environments)}"
        )
        self.environments.append(environment)
        return Process(self._contract.subject(environment, name, self.world, asks=asks))

    async def crashed(self, *, after: int) -> None:
        """Let a process die before it has stored that so much was counted."""
        appends = 0

        def reach(point: str) -> None:
            nonlocal appends
            if point == "before-append" and len(self.world.counted) == after:
                raise Crash(point)

        with pytest.raises(Crash):
            await self.process(reach=reach).run()

    async def hanging(self, process: Process) -> "asyncio.Task[Standing]":
        """Begin a run that hangs in the world at two."""
        self.world.hangs_at = 2
        running = asyncio.create_task(process.run())
        await asyncio.wait({running, asyncio.ensure_future(self.world.hangs.wait())}, return_when="FIRST_COMPLETED")
        assert not running.done()
        return running


class MachineContract:
    """What every machine can do."""

    def subject(self, environment: Environment, name: str, world: World, *, asks: bool) -> Subject:
        """Return the stream of this name in this process."""
        raise NotImplementedError

    @pytest.fixture
    async def scene(self, store_url: str) -> AsyncGenerator[Scene]:
        """A new store, which is closed at the end."""
        scene = Scene(self, store_url)
        async with asyncio.timeout(_PATIENCE):
            yield scene
        for environment in scene.environments:
            await environment.store.close()

    async def test_a_run_goes_to_its_end(self, scene: Scene) -> None:
        assert (await scene.process().looks()).state is StandingState.ABSENT
        assert (await scene.process().run()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_a_key_that_was_answered_runs_nothing_again_and_gives_what_it_came_to(self, scene: Scene) -> None:
        process = scene.process()
        await process.run("k")
        answered = (await process.control.journal()).committed.version
        await process.run()
        scene.world.counted.clear()
        again = await process.control.own(process.subject.begin("k"), process.subject.perform, key="k")
        assert (again.version, scene.world.counted) == (answered, [])

    async def test_a_key_whose_run_was_left_goes_on_with_it(self, scene: Scene) -> None:
        with pytest.raises(Crash):
            await scene.process(reach=crash_at("before-append", 3)).run("k")
        before = list(scene.world.counted)
        assert (await scene.process().run("k")).state is StandingState.DONE
        assert len(before) < 3
        assert scene.world.counted[-1] == 3

    async def test_after_a_crash_what_was_stored_is_not_done_again(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        other = scene.process()
        assert (await other.looks()).state is StandingState.WORKING
        assert (await other.resume()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 2, 3]

    async def test_what_is_over_is_not_resumed(self, scene: Scene) -> None:
        await scene.process().run()
        assert (await scene.process().resume()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_a_pause_lets_what_runs_end_and_starts_nothing_else(self, scene: Scene) -> None:
        running, other = await scene.hanging(scene.process()), scene.process()
        await other.request(Pause(by="ana"))
        scene.world.go_on.set()
        stands = await running
        assert (stands.state, stands.paused_by_person) == (StandingState.PAUSED, True)
        assert not (await other.looks()).is_due(scene.clock.utc() + HOUR)
        assert (await other.resume()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_a_pause_that_is_lifted_is_due_and_can_be_paused_again(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        process = scene.process()
        with pytest.raises(CommandRejected, match="unpause"):
            await process.unpause()
        await process.request(Pause(by="ana"))
        for _ in range(2):
            stands = await process.unpause()
            assert (stands.state, stands.paused_by_person) == (StandingState.PENDING, False)
            assert stands.is_due(scene.clock.utc())
        trail = Steptrail(scene.environments[-1])
        assert [row.stream for row in await trail.due()] == [process.control.stream]
        assert (await scene.process().request(Pause(by="ana"))).paused_by_person
        assert await trail.due() == []
        await process.unpause()
        assert (await scene.process().resume()).state is StandingState.DONE
        assert scene.world.counted[-1] == 3
        with pytest.raises(CommandRejected, match="unpause"):
            await process.unpause()

    async def test_the_request_for_a_pause_is_withdrawn_and_the_owner_goes_on(self, scene: Scene) -> None:
        running, other = await scene.hanging(scene.process()), scene.process()
        await other.request(Pause(by="ana"))
        assert (await other.unpause()).state is StandingState.WORKING
        scene.world.go_on.set()
        assert (await running).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_a_stop_cuts_off_what_runs(self, scene: Scene) -> None:
        running, other = await scene.hanging(scene.process()), scene.process()
        await other.request(Stop(by="ana"))
        assert (await running).state is StandingState.DONE
        assert scene.world.counted == [1, 2]

    async def test_a_pause_and_a_stop_of_what_nobody_owns_are_carried_out_at_once(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        assert (await scene.process().request(Pause(by="ana"))).state is StandingState.PAUSED
        assert (await scene.process().request(Stop(by="ana"))).state is StandingState.DONE
        assert scene.world.counted == [1, 2]
        with pytest.raises(CommandRejected):
            await scene.process().request(Pause(by="ana"))

    async def test_a_cancelled_caller_leaves_it_paused_and_due(self, scene: Scene) -> None:
        running = await scene.hanging(scene.process())
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        left = await scene.process().looks()
        assert (left.state, left.paused_by_person) == (StandingState.PAUSED, False)
        assert left.is_due(scene.clock.utc())
        scene.world.hangs_at = 0
        assert (await scene.process().resume()).state is StandingState.DONE

    async def test_a_cancelled_caller_leaves_it_to_the_person_who_has_asked_for_a_pause(self, scene: Scene) -> None:
        running = await scene.hanging(scene.process())
        await scene.process().request(Pause(by="ana"))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        left = await scene.process().looks()
        assert (left.state, left.paused_by_person) == (StandingState.PAUSED, True)
        assert not left.is_due(scene.clock.utc() + HOUR)

    async def test_what_a_cancelled_caller_left_is_held_by_a_person_who_pauses_it(self, scene: Scene) -> None:
        running = await scene.hanging(scene.process())
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        process = scene.process()
        for _ in range(2):
            stands = await process.request(Pause(by="ana"))
            assert (stands.state, stands.paused_by_person) == (StandingState.PAUSED, True)
        await process.request(Pause(by=CALLER))
        stands = await process.looks()
        assert stands.paused_by_person
        assert not stands.is_due(scene.clock.utc() + HOUR)
        assert await Steptrail(scene.environments[-1]).due() == []
        scene.world.hangs_at = 0
        assert (await process.resume()).state is StandingState.DONE

    async def test_a_pause_that_came_after_the_look_of_who_goes_on_is_not_lifted(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        process, other = scene.process(), scene.process()
        looked = await process.control.journal()
        await other.control.append(await other.control.existing(), Pause(by="ana"))
        assert (await process.resume(looked=looked)).paused_by_person
        assert scene.world.counted == [1, 2]
        assert (await process.resume()).state is StandingState.DONE

    async def test_what_was_paused_after_the_look_of_who_goes_on_stays_so(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        process = scene.process()
        looked = await process.control.journal()
        await scene.process().request(Pause(by="ana"))
        before = (await process.control.journal()).committed.version
        assert (await process.resume(looked=looked)).paused_by_person
        assert (await process.control.journal()).committed.version == before

    async def test_a_pause_that_an_owner_died_with_is_obeyed_by_workers_and_lifted_by_who_resumes(
        self, scene: Scene
    ) -> None:
        await scene.crashed(after=2)
        process = scene.process()
        await process.control.append(await process.control.existing(), Pause(by="ana"))
        assert (await process.resume(obeys_pause=True)).paused_by_person
        assert scene.world.counted == [1, 2]
        assert (await scene.process().resume()).state is StandingState.DONE

    async def test_a_live_owner_is_only_displaced_by_a_take_over(self, scene: Scene) -> None:
        running, other = await scene.hanging(scene.process()), scene.process()
        with pytest.raises(SessionBusy):
            await other.resume()
        scene.world.hangs_at = 0
        assert (await other.resume(take_over=True)).state is StandingState.DONE
        scene.world.go_on.set()
        with pytest.raises(OwnershipLost):
            await running
        assert scene.world.counted == [1, 2, 2, 3]

    async def test_what_was_refused_is_due_again_in_time(self, scene: Scene) -> None:
        scene.world.refuses = 2
        rests = await scene.process().run()
        assert rests.state is StandingState.RESTING
        assert rests.due_at is not None
        assert not rests.is_due(rests.due_at - 1)
        assert (await scene.process().resume()).state is StandingState.RESTING
        scene.clock.advance(HOUR)
        assert rests.is_due(scene.clock.utc())
        assert (await scene.process().resume()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_a_question_rests_until_a_person_answers(self, scene: Scene) -> None:
        rests = await scene.process(asks=True).run()
        assert rests.state is StandingState.RESTING
        assert [(wait.kind, wait.answered_at) for wait in rests.waits] == [("approval", None)]
        assert (await scene.process(asks=True).resume()).waits == rests.waits
        assert scene.world.counted == [1]
        answered = await scene.process(asks=True).approve()
        assert answered.is_due(scene.clock.utc())
        assert (await scene.process(asks=True).resume()).state is StandingState.DONE
        assert scene.world.counted == [1, 2, 3]

    async def test_whoever_looks_at_the_store_sees_it_and_when_it_is_due(self, scene: Scene) -> None:
        scene.world.refuses = 2
        process = scene.process()
        await process.run()
        trail = Steptrail(scene.environments[0])
        seen = [entry async for entry in trail.subscribe(follow=False)]
        stored = (await process.control.journal()).committed.version
        assert [(entry.stream, entry.record.version) for entry in seen] == [
            (process.control.stream, version) for version in range(1, stored + 1)
        ]
        assert await trail.due() == []
        scene.clock.advance(HOUR)
        assert [row.stream for row in await trail.due()] == [process.control.stream]

    async def test_why_says_that_its_owner_died_and_then_that_it_has_ended(self, scene: Scene) -> None:
        await scene.crashed(after=2)
        process = scene.process()
        handle = Steptrail(scene.environments[-1]).handle(process.control.stream)
        left = await handle.why()
        assert (left.is_crashed, left.damage) == (True, None)
        assert (await process.resume()).state is StandingState.DONE
        ended = await handle.why()
        assert (ended.is_crashed, ended.waits_for) == (False, None)
        assert ended.verdict not in {"", left.verdict}

    async def test_why_says_that_it_waits_for_an_answer(self, scene: Scene) -> None:
        process = scene.process(asks=True)
        await process.run()
        why = await Steptrail(scene.environments[-1]).handle(process.control.stream).why()
        assert why.is_crashed is False
        assert why.waits_for is not None
        assert "approv" in why.waits_for

    async def test_doctor_finds_it_sound(self, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
        await scene.process().run()
        assert await asyncio.to_thread(main, ["doctor", "--store", scene.url]) == 0
        assert "1 session" in capsys.readouterr().out


class ForkingContract(MachineContract):
    """What a machine can do whose streams can be forked."""

    async def test_a_fork_goes_on_from_the_same_past_and_leaves_it_alone(self, scene: Scene) -> None:
        process = scene.process()
        assert process.subject.fork is not None
        await process.run()
        into = process.control.stream.replace("one", "two")
        await process.control.fork(into, process.subject.fork, by="ana")
        assert (await scene.process("one").looks()).state is StandingState.DONE
        assert (await scene.process("two").looks()).state is StandingState.DONE
        assert (await scene.process("two").run()).state is StandingState.DONE
        assert (await scene.process("one").looks()).state is StandingState.DONE
        with pytest.raises(CommandRejected):
            await process.control.fork(into, process.subject.fork, by="ana")
