"""A diagnostic: one thing that is wrong with a workflow, or looks wrong, and where."""

from typing import Literal

from steptrail.domain.base import Value


class Diagnostic(Value, frozen=True, kw_only=True):
    """One finding about a workflow. An `error` prevents that it is built.

    `code` names the kind of finding for ever. `path` is a place in the definition, such as `nodes[3].retry`. `line` and
    `column` count from 1; they are None for a workflow that was not read from a text. `hint` says what to do.
    """

    code: str
    severity: Literal["error", "warning"] = "error"
    path: str = ""
    message: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        """Return the finding as one line."""
        place = self.path if self.line is None else f"{self.line}:{self.column or 1} {self.path}".rstrip()
        advice = f" ({self.hint})" if self.hint else ""
        return f"{self.code} {place}: {self.message}{advice}" if place else f"{self.code} {self.message}{advice}"


def fault(code: str, path: str, message: str, hint: str | None = None, *, is_warning: bool = False) -> Diagnostic:
    """Return what is wrong at a place of a definition."""
    severity: Literal["error", "warning"] = "warning" if is_warning else "error"
    return Diagnostic(code=code, severity=severity, path=path, message=message, hint=hint)
