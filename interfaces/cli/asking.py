"""Works on the store of a command, and asks its read models."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from steptrail.domain.errors import StoreReadOnly, StoreTooNew
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import store_of
from steptrail.interfaces.python.trail import Steptrail

T = TypeVar("T")


def in_store(
    arguments: argparse.Namespace, work: Callable[[Steptrail], Awaitable[T]], *, read_only: bool = True, **settings: Any
) -> T:
    """Return what `work` finds, or does, in the store of a command, which has to be there already."""

    async def worked() -> T:
        opened = Steptrail.open(store_of(arguments), create=False, read_only=read_only, **settings)
        async with opened as trail:
            return await work(trail)

    return asyncio.run(worked())


def asked(arguments: argparse.Namespace, ask: Callable[[Steptrail], Awaitable[T]]) -> T:
    """Return what `ask` finds in the store of a command. Of one that cannot be written here it asks what is counted."""
    try:
        return in_store(arguments, ask, read_only=False)
    except (StoreReadOnly, StoreTooNew) as refused:
        try:
            return in_store(arguments, ask)
        except StoreReadOnly:
            # Nothing is counted yet. The first one says which right is missing.
            raise refused from None


def note_lag(output: Output, lag: int) -> None:
    """Say that an answer is not as new as the log, if it is not."""
    if lag:
        who = "another process counts this, or this one cannot"
        output.note(f"steptrail: {who}; {lag} positions of the log are not in this yet")
