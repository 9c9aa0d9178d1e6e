"""Access: the answer of `authorize`, and the tenant of a run, by which it is seen or not."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

from steptrail.domain.kernel.given import a_text, check_flags
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.shared.tags import kept_apart

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a caller of the inspector. `tenant` limits it to the runs of that tenant; None means all runs.

    An empty text is no tenant: who has it sees nothing.
    `may_act` lets it answer questions, pause and stop; `user` is its name in the record of these. Raises
    `ConfigurationError` for a tenant or a user that is no text, and for a `may_act` that is neither True nor False.
    """

    tenant: str | None = None
    may_act: bool = False
    user: str = "user"

    def __post_init__(self) -> None:
        check_flags(self)
        a_text("" if self.tenant is None else self.tenant, "the tenant of a caller")
        a_text(self.user, "the user of an access")


Authorize: TypeAlias = "Callable[[HTTPConnection], Access | Awaitable[Access | None] | None]"
"""Says what a caller may see, given the request; None for nothing at all."""


async def access_of(authorize: Authorize, connection: "HTTPConnection") -> Access | None:
    """Return what a caller may see; None for nothing, also when the answer is no `Access` or names no tenant."""
    answer = authorize(connection)
    found = await answer if isawaitable(answer) else answer
    return found if isinstance(found, Access) and found.tenant != "" else None


def visible(access: Access, rows: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """Return those of the rows that a caller may see."""
    if access.tenant is None:
        return rows
    tenant = kept_apart(access.tenant)
    return [row for row in rows if row.tenant == tenant]
