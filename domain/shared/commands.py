"""The answers to approvals, which all machines take."""

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import FromOutside


class Approve(FromOutside, frozen=True, kw_only=True):
    """Say yes to a call that waits for approval, at the instant `at` (microseconds of UTC).

    `arguments` replace those of the call as a whole. With a `digest` the yes holds only for arguments of that digest.
    """

    DOING = "approve a call of"
    approval_id: str
    by: str
    at: int
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    digest: str | None = None
    key: str | None = None


class Deny(FromOutside, frozen=True, kw_only=True):
    """Say no to a call that waits for approval, at the instant `at` (microseconds of UTC)."""

    DOING = "deny a call of"
    approval_id: str
    by: str
    at: int
    reason: str | None = None
    key: str | None = None
