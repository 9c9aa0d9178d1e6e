"""One thing that is wrong with the definition of a workflow, and where."""

from typing import Literal

from steptrail.domain.base import Positive, Value

__all__ = ["Diagnostic", "fault"]


class Diagnostic(Value, frozen=True, kw_only=True):
    """An error, which stops a build, or a warning. `path` is the place in the definition, such as `nodes[3].retry`.

    `line` and `column` are those in the file that it was read from, from 1; None when it was written in Python.
    """

    code: str
    severity: Literal["error", "warning"]
    path: str
    message: str
    hint: str | None = None
    line: Positive | None = None
    column: Positive | None = None

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.line}:{self.column or 1} {self.path}"
        return f"{self.code} {place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def fault(code: str, path: str, message: str, hint: str | None = None, *, is_warning: bool = False) -> Diagnostic:
    """Return what is wrong at a place of a definition."""
    severity: Literal["error", "warning"] = "warning" if is_warning else "error"
    return Diagnostic(code=code, severity=severity, path=path, message=message, hint=hint)
