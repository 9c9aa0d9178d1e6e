"""An engine on procrastinate: a wake is a job of its queue in PostgreSQL, which may be the database of the store.

A stream has one job at most that waits (`queueing_lock`) and one that runs (`lock`). A job holds the names of the
stream and of the topic, and nothing else: all of it may be lost, and the schema dropped while no worker runs. Jobs are
stored after the commit that made a stream due, never in its transaction: their triggers notify, and the server makes
transactions that notify wait for each other.

A job of a worker that has died is taken away, and another one stored in its place. It is not handed on: the worker may
only have been stopped, and would end the job of the other when it wakes.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from steptrail.domain.errors import ConfigurationError, StoreUnavailable
from steptrail.domain.kernel.given import a_text, a_time
from steptrail.domain.readable import readable
from steptrail.infrastructure.extras import from_fleet
from steptrail.infrastructure.fleet.schema import FLEET_SCHEMA, make_schema
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.runtime.kernel.engine import EngineStatus, Handler, TopicStatus, Wake, WorkerReport
from steptrail.runtime.kernel.log_raised import Seldom, said_by
from steptrail.runtime.kernel.thread_calls import run_in_thread

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job, Status
    from procrastinate.manager import JobManager
    from psycopg_pool import AsyncConnectionPool

_TASK = "steptrail.wake"
_MOST_CONNECTIONS = 3
_LONGEST_QUEUE = 40
"""Bytes of the name of a queue. It is part of the name of a channel, and PostgreSQL takes no more than 63 for those."""
_NO_RIGHT = "42501"
_OPEN_SECONDS, _TRY_AGAIN_SECONDS, _END_SECONDS = 10.0, 1.0, 1.0
_RECONNECT_SECONDS = 4.0
"""A pool waits twice as long before each try, so it begins anew after these: a server that is back is found soon."""
_HELD_SECONDS = 60.0
"""A worker of procrastinate that lived for longer had a server: what is said of the next failure is news."""
_TRIES = 5
_ALIVE_SECONDS = 30.0
_FORGET = "1 hour"
_SETTINGS = f"""
SELECT set_config('search_path', '{FLEET_SCHEMA}', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('jit', 'off', false),
       set_config('default_transaction_isolation', 'read committed', false)
"""
"""Jobs are to be fetched in the order of their index. While a server has not counted the jobs that have just come, it
takes them to be few, and would read and sort all of them for each that is fetched.

It takes what has to be read without an index to be very costly then, and would compile each such statement first. And
where a database is set to another isolation, workers that fetch jobs at once would be undone in favour of each other.
"""

_log = logging.getLogger("steptrail.runs")


class ProcrastinateEngine:
    """Wakes streams with jobs of procrastinate, in the schema `steptrail_fleet` of the database at `url`.

    A worker that has not said for `stalled_after` seconds that it lives is taken for dead: its wakes are given to
    others, at the latest `heartbeat` seconds after that. `poll` is how late a wake for a later time may be, in seconds.
    An engine belongs to one event loop. Raises `MissingExtra` without the extra `fleet`, and `ConfigurationError` for
    an address or seconds that cannot be.
    """

    name = "procrastinate"

    def __init__(self, url: str, *, heartbeat: float = 5.0, stalled_after: float = 15.0, poll: float = 0.5) -> None:
        a_text(url, "the address of an engine")
        for name, seconds in (("heartbeat", heartbeat), ("stalled_after", stalled_after), ("poll", poll)):
            a_time(seconds, name)
        if not heartbeat < stalled_after:
            raise ConfigurationError(f"heartbeat < stalled_after, in seconds; not {heartbeat} and {stalled_after}")
        from_fleet("procrastinate")
        self._address = PostgresAddress.parse(url)
        # A worker waits for its jobs without a time limit, also for those of a machine that is not there any more.
        gone_after = str(round(self._address.answer_timeout * 1000))
        of_ours = {"application_name": "steptrail fleet", "connect_timeout": "10", "keepalives_idle": "30"}
        self._parameters = {**of_ours, "tcp_user_timeout": gone_after, **self._address.parameters}
        self._heartbeat, self._stalled_after, self._poll = heartbeat, stalled_after, poll
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._app: App | None = None
        self._pool: AsyncConnectionPool[Any] | None = None
        self._handler: Handler | None = None
        self._unfinished: list[Job] = []
        """Jobs that have ended and whose end could not be stored: nobody else would find them."""

    async def open(self) -> None:
        """Connect, and make the schema. Safe to call again, and from many processes at once."""
        async with self._opening:
            if self._app is not None:
                return
            if self._is_closed:
                raise StoreUnavailable(f"the engine {self.name} is closed")
            # A single connection says at once what is wrong with the address or the server; a pool tries for a while.
            connect = from_fleet("psycopg").AsyncConnection.connect
            async with self._answering(), await connect(**self._parameters) as connection:
                await run_in_thread(self._refuse_shared_sessions, name="steptrail-fleet")
                await make_schema(connection, self._address.name)
            pool = await self._opened_pool()
            try:
                self._app = await self._made_app(pool)
            except BaseException:
                await pool.close()
                raise
            self._pool = pool

    async def wake(self, wake: Wake) -> None:
        """See to it that a handler of the topic is called for the stream, in about `seconds`."""
        app = await self._opened()
        (job,) = await self._jobs(app, [wake])
        async with self._answering():
            for _ in range(_TRIES):
                try:
                    await app.job_manager.defer_job_async(job)
                except from_fleet("procrastinate.exceptions").AlreadyEnqueued:
                    # One that is taken up between the two looks is gone, and the next try stores ours.
                    if not await self._make_way(app, job):
                        return
                else:
                    return

    async def wake_missed(self, wakes: Sequence[Wake]) -> int:
        """Do what `wake` does for those streams of which no wake of the topic waits, and none is being handled."""
        app = await self._opened()
        streams = [wake.stream for wake in wakes]
        known = set(
            await self._ask(
                "SELECT queueing_lock, queue_name FROM procrastinate_jobs "
                "WHERE status = 'todo' AND queueing_lock = ANY(%s) "
                "UNION ALL SELECT lock, NULL FROM procrastinate_jobs WHERE status = 'doing' AND lock = ANY(%s)",
                (streams, streams),
            )
        )
        missed = [wake for wake in wakes if known.isdisjoint(((wake.stream, _queue(wake.topic)), (wake.stream, None)))]
        if missed:
            jobs = await self._jobs(app, missed)
            try:
                async with self._answering():
                    await app.job_manager.batch_defer_jobs_async(jobs)
            except from_fleet("procrastinate.exceptions").AlreadyEnqueued:
                for wake in missed:
                    await self.wake(wake)
        return len(missed)

    async def cancel(self, stream: str) -> None:
        """Forget a wake that waits for the stream."""
        await self._opened()
        delete = "DELETE FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = %s RETURNING id"
        await self._ask(delete, (stream,))

    async def run(self, handler: Handler, *, topics: Sequence[str], concurrency: int, until: asyncio.Event) -> None:
        """Call the handler for wakes of these topics, at most `concurrency` at once, until `until` is set."""
        app = await self._opened()
        self._handler = handler
        rescuing = asyncio.create_task(self._rescue(app))
        # Each wake that is put back has all workers begin their intervals anew. With equal ones the same worker would
        # find it each time, also one that may not take it.
        spread = 0.75 + random.random() / 2  # noqa: S311 - spreads looks
        ending, seldom = asyncio.create_task(until.wait()), Seldom(_log)
        try:
            while not until.is_set():
                began = time.monotonic()
                worker = asyncio.create_task(
                    app.run_worker_async(
                        queues=[_queue(topic) for topic in topics],
                        name="steptrail",
                        concurrency=concurrency,
                        fetch_job_polling_interval=self._poll * spread,
                        shutdown_graceful_timeout=_END_SECONDS,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        update_heartbeat_interval=self._heartbeat,
                        stalled_worker_timeout=self._stalled_after,
                    )
                )
                await asyncio.wait({worker, ending}, return_when=asyncio.FIRST_COMPLETED)
                if until.is_set() or self._is_closed:
                    worker.cancel()
                    await asyncio.gather(worker, return_exceptions=True)
                    return
                cause = _words_of(error) if (error := worker.exception()) is not None else "it has ended"
                if time.monotonic() - began > _HELD_SECONDS:
                    seldom.over()  # it had come back since
                seldom.warn("the engine %s wakes nobody here, and is tried again: %s", self.name, cause)
                await asyncio.wait({ending}, timeout=_TRY_AGAIN_SECONDS)
        finally:
            rescuing.cancel()
            ending.cancel()

    async def report(self, report: WorkerReport | None, worker: str) -> None:
        """Store what a worker says of itself; None when it ends."""
        await self._opened()
        if report is None:
            await self._ask("DELETE FROM fleet_workers WHERE worker = %s RETURNING 1", (worker,))
            return
        await self._ask(
            "WITH gone AS (DELETE FROM fleet_workers WHERE seen < now() - %s::interval AND worker <> %s) "
            "INSERT INTO fleet_workers (worker, seen, report) VALUES (%s, now(), %s) "
            "ON CONFLICT (worker) DO UPDATE SET seen = excluded.seen, report = excluded.report RETURNING 1",
            (_FORGET, worker, worker, msgspec.json.encode(report).decode()),
        )

    async def status(self) -> EngineStatus:
        """Return what the engine holds."""
        await self._opened()
        told = await self._ask("SELECT report, extract(epoch FROM now() - seen) FROM fleet_workers ORDER BY worker", ())
        workers = [(msgspec.json.decode(report, type=readable(WorkerReport)), float(age)) for report, age in told]
        served = {topic for worker, age in workers if age < _ALIVE_SECONDS for topic in worker.topics}
        rows = await self._ask(
            "SELECT job.args->>'topic', count(*) FILTER (WHERE is_now), count(*) FILTER (WHERE NOT is_now), "
            "(extract(epoch FROM min(coalesce(job.scheduled_at, said.at)) FILTER (WHERE is_now)) * 1e6)::bigint "
            "FROM procrastinate_jobs AS job "
            "CROSS JOIN LATERAL (SELECT job.scheduled_at IS NULL OR job.scheduled_at <= now() AS is_now) AS due "
            "LEFT JOIN procrastinate_events AS said ON said.job_id = job.id AND said.type = 'deferred' "
            "WHERE job.status = 'todo' GROUP BY 1",
            (),
        )
        topics = {
            topic: TopicStatus(waiting=waiting, later=later, since=since, is_served=topic in served)
            for topic, waiting, later, since in rows
        }
        missing = {topic: TopicStatus(is_served=True) for topic in served - topics.keys()}
        return EngineStatus(topics=dict(sorted({**topics, **missing}.items())), workers=[each for each, _ in workers])

    async def close(self) -> None:
        """Release every connection. Safe to call twice."""
        self._is_closed = True
        app, self._app = self._app, None
        pool, self._pool = self._pool, None
        if app is not None:
            await app.close_async()
        if pool is not None:
            await pool.close(_END_SECONDS)

    async def _jobs(self, app: "App", wakes: Sequence[Wake]) -> "list[Job]":
        """Return the jobs of wakes, at instants of the server's clock, which decides when they come."""
        now: datetime | None = None
        if any(wake.seconds for wake in wakes):
            ((now,),) = await self._ask("SELECT now()", ())
        return [
            app.configure_task(
                _TASK,
                queue=_queue(wake.topic),
                lock=wake.stream,
                queueing_lock=wake.stream,
                schedule_at=now + timedelta(seconds=wake.seconds) if now and wake.seconds else None,
            ).make_new_job(stream=wake.stream, topic=wake.topic)
            for wake in wakes
        ]

    async def _make_way(self, app: "App", job: "Job") -> bool:
        """Remove the job that waits for the stream if it comes too late or in another queue; False if it may stay."""
        waiting = await self._ask(
            "SELECT id, queue_name, scheduled_at FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = %s",
            (job.lock,),
        )
        at = job.scheduled_at
        for number, queue, scheduled in waiting:
            if queue == job.queue and (scheduled is None or (at is not None and scheduled <= at)):
                return False
            await app.job_manager.cancel_job_by_id_async(number, delete_job=True)
        return True

    async def _rescue(self, app: "App") -> None:
        """Wake anew what workers had in hand that have died. Several workers may do it at once."""
        while True:
            await asyncio.sleep(self._heartbeat)
            try:
                async with self._answering():
                    await app.job_manager.prune_stalled_workers(self._stalled_after)
                    stalled = await app.job_manager.get_stalled_jobs(
                        task_name=_TASK, seconds_since_heartbeat=self._stalled_after
                    )
                for job in (*stalled, *self._unfinished):
                    delete = "DELETE FROM procrastinate_jobs WHERE status = 'doing' AND id = %s RETURNING id"
                    if await self._ask(delete, (job.id,)):  # else another worker was quicker
                        await self.wake(_wake(job))
                        _log.info("%s was in hand of a worker that has died, and is woken anew", _wake(job).stream)
                    if job in self._unfinished:
                        self._unfinished.remove(job)
            except Exception as error:  # also for lack of memory: what the dead had in hand would stay there for good
                _log.debug("the jobs of workers that have died were not looked for: %s", said_by(error))

    async def _perform(self, stream: str, topic: str) -> None:
        if self._handler is not None:
            await self._handler(Wake(stream=stream, topic=topic))

    async def _opened(self) -> "App":
        while self._app is None:
            await self.open()
        return self._app

    def _refuse_shared_sessions(self) -> None:
        connections = PostgresConnections(self._address, durability="normal", patience=_OPEN_SECONDS)
        with closing(connections):
            connections.open().close()

    async def _opened_pool(self) -> "AsyncConnectionPool[Any]":
        async def configure(connection: Any) -> None:
            await connection.execute(_SETTINGS)
            await connection.commit()

        pools = from_fleet("psycopg_pool")
        pool: AsyncConnectionPool[Any] = pools.AsyncConnectionPool(
            "",
            kwargs=self._parameters,
            min_size=1,
            max_size=_MOST_CONNECTIONS,
            open=False,
            timeout=_OPEN_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            configure=configure,
            check=pools.AsyncConnectionPool.check_connection,
        )
        try:
            async with self._answering():
                await pool.open(wait=True, timeout=_OPEN_SECONDS)
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _made_app(self, pool: "AsyncConnectionPool[Any]") -> "App":
        procrastinate = from_fleet("procrastinate")
        app: App = procrastinate.App(connector=procrastinate.PsycopgConnector())
        app.job_manager = _patient(app.job_manager, self._unfinished)
        app.task(name=_TASK)(self._perform)
        await app.open_async(pool)
        return app

    async def _ask(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        async with self._answering():
            if self._pool is None:
                raise StoreUnavailable(f"the engine {self.name} is closed")
            async with self._pool.connection() as connection:
                found: list[tuple[Any, ...]] = await (await connection.execute(statement, values)).fetchall()
                return found

    @asynccontextmanager
    async def _answering(self) -> AsyncGenerator[None]:
        """Say in our words that the server did not do what was asked."""
        psycopg, exceptions = from_fleet("psycopg"), from_fleet("procrastinate.exceptions")
        longest = self._address.answer_timeout
        try:
            # A silent server keeps its connections. The driver ends ours some seconds after it was cancelled.
            async with asyncio.timeout(longest):
                yield
        except exceptions.AlreadyEnqueued:
            raise
        except (psycopg.Error, exceptions.ProcrastinateException, OSError) as error:
            told = "did not do what it was asked, try again"
            if getattr(_cause(error), "sqlstate", None) == _NO_RIGHT:
                told = (
                    f"was refused: grant its user the right, or `CREATE SCHEMA {FLEET_SCHEMA} AUTHORIZATION` that user"
                )
            why = _words_of(error) or f"there was no answer within {longest:g} s"
            msg = f"the engine {self.name} in {self._address.name} {told}: {why}"
            raise StoreUnavailable(msg) from error


def _patient(manager: "JobManager", unfinished: "list[Job]") -> "JobManager":
    """Return a manager of jobs that keeps in a list what it could not store the end of, instead of raising that."""
    from procrastinate.exceptions import ConnectorException
    from procrastinate.manager import JobManager

    class Patient(JobManager):
        async def finish_job(self, job: "Job", status: "Status", delete_job: bool) -> None:
            try:
                await super().finish_job(job, status, delete_job)
            except ConnectorException as error:
                _log.debug("the end of a wake of %s could not be stored: %s", job.lock, error.__cause__)
                unfinished.append(job)

    return Patient(manager.connector)


def _cause(error: BaseException) -> BaseException:
    """Return what the server or the driver raised: of that procrastinate says that it is an error, and no more."""
    is_wrapped = isinstance(error, from_fleet("procrastinate.exceptions").ConnectorException)
    return error.__cause__ if is_wrapped and error.__cause__ is not None else error


def _words_of(error: BaseException) -> str:
    return " ".join(str(_cause(error)).split())


def _queue(topic: str) -> str:
    if len(topic.encode()) <= _LONGEST_QUEUE and "\0" not in topic:
        return topic
    return f"{topic.encode()[:20].decode(errors='ignore')}~{sha256(topic.encode()).hexdigest()[:16]}"


def _wake(job: "Job") -> Wake:
    return Wake(stream=str(job.task_kwargs["stream"]), topic=str(job.task_kwargs["topic"]))
