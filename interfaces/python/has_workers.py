"""`work` of a trail: the worker of a process, woken by an engine or looking for itself."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steptrail.domain.errors import SteptrailError, StoreUnavailable
from steptrail.domain.kernel.given import a_flag
from steptrail.infrastructure.fleet.opening import engine_of
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.kernel.engine import Engine, EngineStatus, WorkerReport
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.waking import Waking

if TYPE_CHECKING:
    from steptrail.runtime.flow.workflow import BuiltWorkflow
    from steptrail.runtime.kernel.hands import OnLeft
    from steptrail.runtime.kernel.room import Most
    from steptrail.runtime.kernel.worker import Worker

_PATIENCE_SECONDS = 2.0
"""How long metrics wait for an engine: those of the store are told although it does not answer."""


class HasWorkers:
    """The methods of a trail for workers."""

    _env: Environment
    _waking: Waking
    _url: str
    _workers: "list[Worker]"
    _is_closed: bool

    async def fleet(self) -> EngineStatus | None:
        """Return what the engine holds: wakes that wait, and what each worker said last; None without an engine.

        Raises `StoreUnavailable` when the engine's server is away.
        """
        engine = self._waking.engine
        if engine is None:
            return None
        await engine.open()
        return await engine.status()

    def work(
        self,
        *agents: "AnyAgent | BuiltWorkflow",
        concurrency: int = 8,
        grace: float = 10.0,
        live: bool = False,
        on_left: "OnLeft | None" = None,
        engine: Engine | str | None = None,
        per_agent: "Most" = None,
        per_tenant: "Most" = None,
        strict: bool = False,
    ) -> "Worker":
        """Return a worker, which is used in `async with`: until it is left it carries on what is `due` in the store.

        That is what a crash or a deploy left, waits that are over, answered questions, and messages to a session at
        rest. A session is carried on by the agent of the name that its last execution was begun with; of several with
        one name by the one that it was begun with, or else the last. A run of a workflow is carried on by the workflow
        of its name in the same way. A session whose agent is not here is left to other workers. At most `concurrency`
        sessions run at once. At the end each is asked to pause, and is cut off after `grace` seconds; any worker goes
        on with them. Any number of workers, in any process, may serve one store: a session has one owner.

        With `live` models are asked to stream, as by `open(live=True)`. `on_left` is told of a session that stays as it
        is, with the error of the attempt to carry it on; None where no agent here fits, or nothing came of it. It is
        tried again when something is stored in it. With `strict` a session goes on only with the very agent that it was
        begun with, and is left to others where that is not here.

        At most `per_agent` sessions of one agent, and `per_tenant` of one tenant (what their metadata has under the key
        `tenant`) run at once in this worker: a number for each, or a mapping from names to numbers, in which `*` stands
        for all others.

        With an `engine`, or one that the trail was opened with, the worker is woken by it and does not look at the
        store each time when something is stored; see the guide "A fleet". All else is the same. Raises
        `ConfigurationError` without an agent, and for what cannot be meant, and `StoreUnavailable` when the trail is
        closed already; entering raises that when the engine's server is away.
        """
        if self._is_closed:
            raise StoreUnavailable("the trail is closed: open it again to work")
        # Most programs that open a trail work nothing off.
        from steptrail.interfaces.python.agents_worker import agents_worker
        from steptrail.runtime.kernel.room import Room

        if (waker := engine_of(engine, self._url)) is not None:
            self._waking.use(waker)
        room = Room(concurrency, per_agent=per_agent, per_tenant=per_tenant)
        # A model is asked to stream when somebody is told of it.
        on_update: OnUpdate | None = (lambda _: None) if a_flag(live, "`live`") else None
        worker = agents_worker(
            self._env,
            agents,
            room=room,
            grace=grace,
            strict=a_flag(strict, "`strict`"),
            on_left=on_left,
            on_update=on_update,
        )
        self._workers.append(worker)
        return worker

    async def _fleet_here(self) -> tuple[EngineStatus | None, Sequence[WorkerReport]]:
        """Return what the engine holds, if it answers soon, and what the workers of this trail do."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                status = await self.fleet()
        except (SteptrailError, TimeoutError):
            status = None
        return status, [worker.report() for worker in self._workers]
