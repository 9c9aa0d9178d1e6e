"""Erases streams of any kind, with the children and the forks that cannot be without them.

Each stream is at rest and leased while it is erased. Whatever was looked at before is compared again in the transaction
that erases, so nothing that came meanwhile is lost with it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec.structs import replace

from steptrail.domain.errors import (
    ConcurrencyConflict,
    ErasureRefused,
    SessionBusy,
    SessionErased,
    SessionNotFound,
    stream_name,
)
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.environment import Environment

Keep = Callable[[Sequence[str]], Awaitable[None]]
"""Keeps streams elsewhere that are about to be erased, while nobody adds to them. What it raises keeps them here."""

OnErased = Callable[[Erasure], object]
"""Is told of each stream that was erased."""

_PAGE = 200
_TRIES = 10
_OWNER = "erasure"


async def erase_stream(
    environment: Environment,
    stream: str,
    *,
    by: str,
    reason: str,
    cascade: bool,
    before: int | None = None,
    dry_run: bool = False,
    keep: Keep | None = None,
    on_erased: OnErased | None = None,
) -> Sequence[Erasure]:
    """Erase a stream, and with `cascade` all that was begun by it or goes on from its past; return what was erased.

    One of them in which something happened at the instant `before`, or later, keeps them all. `keep` is called before,
    with all that is about to be erased, and `on_erased` at once with each that was: also where the caller is cancelled.

    Raises `ErasureRefused`, `SessionBusy`, `SessionNotFound` and `SessionErased`.
    """
    store = environment.store
    for _ in range(_TRIES):
        family = await _family(environment, stream)
        _refuse_if_shared(stream, family, cascade=cascade)
        if before is not None:
            _refuse_if_young(stream, family, before)
        await _refuse_if_needed(environment, family)
        at = environment.clock.utc()
        versions = {each: version for each, (version, _) in family.items()}
        if dry_run:
            told = versions.items()
            return [Erasure(stream=each, at=at, by=by, reason=reason, events=count, digest="") for each, count in told]
        async with _leased(environment, sorted(family)):
            if versions != {each: await store.version(each) for each in family}:
                continue
            if keep is not None:
                await keep(list(family))
            erasing = asyncio.ensure_future(store.erase(versions, at=at, by=by, reason=reason))
            cancelled = await wait_through(erasing)
            if on_erased is not None and erasing.exception() is None:
                for each in erasing.result():
                    on_erased(each)
            if cancelled is not None:
                raise cancelled
            with suppress(ConcurrencyConflict):
                return erasing.result()
    raise SessionBusy(stream_name(stream))


async def retain_streams(
    environment: Environment, asked: IndexQuery, erase: Callable[[str], Awaitable[Sequence[Erasure]]], limit: int | None
) -> tuple[Sequence[Erasure], Sequence[tuple[str, str]]]:
    """Erase the streams that a query finds, about `limit` at most: `erase` erases one with all that belongs to it.

    Return what was erased, and what was kept with the reason; see `Steptrail.retain`.
    """
    erased, kept, gone, after = list[Erasure](), list[tuple[str, str]](), set[str](), None
    while limit is None or len(erased) < limit:
        page = await environment.store.index(replace(asked, after=after, limit=_PAGE))
        for row in page:
            if limit is not None and len(erased) >= limit:
                break
            if row.stream in gone or await _belongs_to_another(environment, row):
                continue
            try:
                found = await erase(row.stream)
            except (SessionErased, SessionNotFound):
                continue  # by somebody else, meanwhile
            except SessionBusy as error:
                kept.append((row.stream, f"it is being run by {error.owner or 'another process'}"))
            except ErasureRefused as error:
                kept.append((row.stream, error.why))
            else:
                # In a dry run a fork is still there when its source is looked at.
                erased += [each for each in found if each.stream not in gone]
                gone.update(each.stream for each in found)
        if len(page) < _PAGE:
            break
        after = page[-1].stream
    return erased, kept


_Family = dict[str, tuple[int, RunSummary | None]]
"""A stream and those that cannot be without it -> the version of each, and its row in the index."""


async def _family(environment: Environment, stream: str) -> _Family:
    store, family, level = environment.store, _Family(), [stream]
    while level:
        # The versions first: a row that is newer than its version is a conflict later, and not missed.
        versions = {each: await store.version(each) for each in level}
        rows = {row.stream: row for row in await store.index(IndexQuery(streams=level))}
        family.update((each, (versions[each], rows.get(each))) for each in level)
        below = [*await store.index(IndexQuery(parents=level)), *await store.index(IndexQuery(forked_from=level))]
        level = sorted({row.stream for row in below} - family.keys())
    erasure = await store.erasure(stream)
    if erasure is not None:
        raise SessionErased(stream, erasure.by, erasure.at, erasure.reason)
    if not family[stream][0]:
        raise SessionNotFound(stream)
    return family


def _refuse_if_shared(stream: str, family: _Family, *, cascade: bool) -> None:
    others = [each for each in family if each != stream]
    if others and not cascade:
        some = ", ".join(map(stream_name, others[:3])) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        each = "was begun by it or goes" if len(others) == 1 else "were begun by it or go"
        raise ErasureRefused(stream, f"{some} {each} on from its past: `cascade` erases these too", others)


async def _refuse_if_needed(environment: Environment, family: _Family) -> None:
    """Raise for a stream that has something to do, and for one that was begun by another one that is open."""
    for stream, (_, row) in family.items():
        if row is None or row.damage is not None:
            continue  # nobody can carry on what cannot be read
        name = stream_name(stream)
        if row.is_open:
            raise ErasureRefused(stream, f"session {name} is open ({row.status.value}): stop it first", [stream])
        if row.due_at is not None:
            why = f"session {name} has a message to answer: resume it, or stop it first"
            raise ErasureRefused(stream, why, [stream])
        if row.parent is None or row.parent.stream in family:
            continue
        above = await environment.store.index(IndexQuery(streams=[row.parent.stream]))
        if any(each.is_open and each.damage is None for each in above):
            why = f"it was begun by session {stream_name(row.parent.stream)}, which is open"
            raise ErasureRefused(stream, why, [row.parent.stream])


def _refuse_if_young(stream: str, family: _Family, before: int) -> None:
    for other, (_, row) in family.items():
        if row is not None and row.updated_at >= before:
            which = "it" if other == stream else f"session {stream_name(other)} belongs to it and"
            why = f"{which} is younger"
            raise ErasureRefused(stream, why, [other])


async def _belongs_to_another(environment: Environment, row: RunSummary) -> bool:
    """Tell whether the stream that began this one is still there: then it is erased with that one."""
    if row.parent is None:
        return False
    return bool(await environment.store.index(IndexQuery(streams=[row.parent.stream])))


@asynccontextmanager
async def _leased(environment: Environment, streams: Sequence[str]) -> AsyncGenerator[None]:
    """Hold the leases of all of these streams. Raises `SessionBusy`."""
    async with AsyncExitStack() as stack:
        for stream in streams:
            lease = await environment.store.acquire(stream, owner=_OWNER)
            stack.push_async_callback(lease.release)
        yield
