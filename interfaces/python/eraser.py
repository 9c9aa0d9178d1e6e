"""Erasing sessions and other runs for good, one by one or by their age."""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from steptrail.domain.errors import ConfigurationError, SessionErased, shown
from steptrail.domain.kernel.erasure import Erasure, ErasureReport
from steptrail.domain.kernel.given import a_flag, a_plain_function, a_whole, for_the_record
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.loading import loading
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.python.lists import agent_name, one_of
from steptrail.interfaces.python.naming import stream_named
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.erasing import erase_stream, retain_streams

if TYPE_CHECKING:
    from pathlib import Path

_ENDED = tuple(status.value for status in ExecutionStatus if status.is_over)


class Eraser:
    """Erases what is stored of runs, and remembers who asked for it and why."""

    _env: Environment

    async def erase(
        self, name: str, *, by: str, reason: str, cascade: bool = False, dry_run: bool = False
    ) -> ErasureReport:
        """Erase a session, or another run by its name: its events, snapshots, large bodies and rows in lists.

        What stays is its id, and who erased it, when, why and how many events. The id cannot be used again: whatever
        is asked of it from then on raises `SessionErased`. Followers of the log meet the event `stream.erased.v1` in
        the place of its events. `remains` in the report says where bytes may still lie. With `cascade` the sessions
        below it and its forks are erased too. A `dry_run` only says what would be.

        Raises `ErasureRefused`, which names who is in the way, while it is open or was begun by a session that is, and,
        unless it is to `cascade`, when it has forks or sessions below it; `SessionBusy` while a process runs it, and
        `SessionNotFound`.
        """
        by, reason = for_the_record(by, "by"), for_the_record(reason, "reason")
        a_flag(cascade, "cascade")
        a_flag(dry_run, "dry_run")
        erased = await erase_stream(
            self._env, stream_named(name), by=by, reason=reason, cascade=cascade, dry_run=dry_run
        )
        remains = None if dry_run else await self._env.store.scrub()
        return ErasureReport(erased=tuple(erased), is_dry_run=dry_run, remains=remains)

    async def retain(
        self,
        *,
        older_than: timedelta,
        status: str | None = None,
        agent: str | None = None,
        dry_run: bool = True,
        limit: int | None = None,
        by: str = "retention",
        reason: str | None = None,
        archive: "Path | str | None" = None,
        on_erased: Callable[[Erasure], object] | None = None,
    ) -> ErasureReport:
        """Erase the sessions, and other runs, that ended longer ago than `older_than`. Does so if not `dry_run`.

        `status` and `agent` (its name) leave others out. Each is erased with the sessions below it and its forks, in a
        transaction of its own, and is kept, which the report tells, when one of them is open, younger, or has a message
        to answer. `limit` ends the work when as many were erased. With `archive`, a folder, each is first written to a
        file there, which is read again and proved; one that cannot be is kept. `on_erased` is told of each at once, for
        who is cut off before the report. Raises `ConfigurationError` for what cannot be meant, and for a folder that
        cannot be written.
        """
        a_flag(dry_run, "dry_run")
        if not isinstance(older_than, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"older_than is a timedelta, not {type(older_than).__name__}")
        if older_than <= timedelta(0):
            raise ConfigurationError(f"older_than is a time above 0, not {older_than}")
        if one_of(ExecutionStatus, "status", status) not in {None, *_ENDED}:
            raise ConfigurationError(f"a session that is {status} has not ended: give {', '.join(_ENDED)}")
        if limit is not None:
            a_whole(limit, "`limit`", least=1)
        if on_erased is not None:
            a_plain_function(on_erased, "`on_erased`", "what was erased")
        keep = None
        if archive is not None:
            from pathlib import Path

            if not isinstance(archive, Path | str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"`archive` is a folder, not {type(archive).__name__}")
            # An empty text would be the folder in which the process happens to run.
            if not archive or not _can_be_a_name(str(archive)):
                raise ConfigurationError(f"`archive` is a folder, and none has the name {shown(str(archive))}")
            with loading("archives"):
                from steptrail.interfaces.python.archive import ArchiveFolder

            keep = ArchiveFolder(self._env.store, Path(archive)).keep
        before = max(0, self._env.clock.utc() - older_than // timedelta(microseconds=1))
        erase = partial(
            erase_stream,
            self._env,
            by=for_the_record(by, "by"),
            reason=for_the_record(reason or f"older than {older_than}", "reason"),
            cascade=True,
            before=before,
            dry_run=dry_run,
            keep=keep,
            on_erased=on_erased,
        )
        ended = IndexQuery(ended_before=before, status=status, name=agent_name(agent))
        erased, kept = await retain_streams(self._env, ended, erase, limit)
        remains = None if dry_run or not erased else await self._env.store.scrub()
        return ErasureReport(erased=tuple(erased), kept=tuple(kept), is_dry_run=dry_run, remains=remains)

    async def finish_erasing(self) -> str | None:
        """Remove what may remain of erased sessions in the files of the store, however long it takes.

        On SQLite nobody can write meanwhile, on PostgreSQL nobody notices. Returns where bytes remain all the same,
        and why; None when they are gone, which a server cannot promise.
        """
        return await self._env.store.scrub(thoroughly=True)

    async def erasure(self, name: str) -> Erasure | None:
        """Return what is remembered of an erased session; None for one that was not erased."""
        return await self._env.store.erasure(stream_named(name))

    async def check_not_erased(self, name: str) -> None:
        """Raise `SessionErased` if the session was erased."""
        if (found := await self.erasure(name)) is not None:
            raise SessionErased(found.stream, found.by, found.at, found.reason)


def _can_be_a_name(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
