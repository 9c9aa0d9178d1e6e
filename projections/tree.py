"""The tree of a session: every session that its tool calls ran, however deep, and what each was billed.

It adds up what the sessions themselves say, and not what was told to the ones above them, so it also holds what a call
that is still open has cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTree:
    """A session, or a stream of another kind, and those below it, in the order in which they began.

    `own_usage` is what its own model calls were billed over all its executions, `usage` that of the whole tree.
    """

    run: RunSummary
    own_usage: Usage
    usage: Usage
    children: tuple["RunTree", ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "RunTree"]]:
        """Yield the tree and every one below it, each before those below it, with its depth from 0."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)
