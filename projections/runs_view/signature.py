"""Kinds of failures: errors that are alike have one signature.

They are alike when type, class, tool and template are equal. The template is the message without its values: quoted
text, numbers, ids, addresses, and long words such as keys.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.storable import plain
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Row
from steptrail.projections.runs_view.tables import SIGNATURES

_LONGEST = 200
_READ = 2_000
"""So many characters of a message are looked at."""

_VALUES = re.compile(
    r"""
      "(?:\\.?|[^"\\])*(?:"|$) | `[^`]*(?:`|$) | “[^”]*(?:”|$) | «[^»]*(?:»|$)
    | (?<!\w)'(?:\\.?|[^'\\]|'(?=\w))*(?:'|$)   # the apostrophe of a word quotes nothing
    | \S+://\S+ | \S+@\S+ | \S{33,}
    | [\w.:/\\+=-]*\d[\w.:/\\+=-]*               # all of a word that holds a digit
    | \b[0-9a-fA-F]{8,}\b
    """,
    re.VERBOSE | re.DOTALL,
)
_MANY = re.compile(r"#(?:[\s,;]*#)+")


class ErrorKind(NamedTuple):
    """The parts that errors of one signature have in common."""

    error_type: str
    error_class: str
    tool: str
    template: str

    @property
    def signature(self) -> str:
        """64 bits of BLAKE2b over the parts, as 16 hexadecimal digits."""
        return blake2b("\0".join(self).encode(), digest_size=8).hexdigest()

    def columns(self) -> Row:
        """Return the columns of an error in a row."""
        return {
            "error_type": self.error_type,
            "error_class": self.error_class or None,
            "signature": self.signature,
        }

    def written(self, changes: Changes) -> "ErrorKind":
        """Write the row of the signature, which is the same row each time, and return this."""
        changes.put(SIGNATURES, {"signature": self.signature, **self._asdict()})
        return self


NO_ERROR: Row = {"error_type": None, "error_class": None, "signature": None}
"""The columns of an error in a row without one."""


def kind_of(error: ErrorInfo, tool: str = "", *, is_content: bool = False) -> ErrorKind:
    """Return the kind of an error. `is_content` says that its message is no error's but what somebody wrote."""
    template = "" if is_content else template_of(error.message)
    return ErrorKind(error.type.value, plain(error.error_class), plain(tool), template)


@lru_cache(maxsize=1024)
def template_of(message: str) -> str:
    """Return a message without its values, at most 200 characters."""
    text = " ".join(_VALUES.sub("#", message[:_READ]).split())
    return plain(_MANY.sub("#", text), _LONGEST)
