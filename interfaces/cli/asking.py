"""Asks the read models of the store of a command."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steptrail.domain.errors import StoreReadOnly
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import store_of
from steptrail.interfaces.python.trail import Steptrail

__all__ = ["asked", "note_lag"]

T = TypeVar("T")


def asked(arguments: argparse.Namespace, ask: Callable[[Steptrail], Awaitable[T]]) -> T:
    """Return what `ask` finds in the store of a command. Of one that cannot be written it asks what is counted."""

    async def found(*, read_only: bool = False) -> T:
        async with Steptrail.open(store_of(arguments), create=False, read_only=read_only) as trail:
            return await ask(trail)

    try:
        return asyncio.run(found())
    except StoreReadOnly as refused:
        try:
            return asyncio.run(found(read_only=True))
        except StoreReadOnly:
            # Nothing is counted yet. The first one says which right is missing.
            raise refused from None


def note_lag(output: Output, lag: int) -> None:
    """Say that an answer is not as new as the log, if it is not."""
    if lag:
        who = "another process is counting, or this one may not write"
        output.note(f"steptrail: {who}; {lag} positions of the log are not in this yet")
