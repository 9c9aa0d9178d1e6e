"""Citations, `"the words" (file:line)`, and whether the words really stand there."""

import re
from typing import NamedTuple

from examples.research.library import Library

__all__ = ["Citation", "cited", "problems"]

PLACE = re.compile(r"\((?P<file>[^():\n]+):(?P<line>\d+)\)")
QUOTED = re.compile(r'"(?P<quote>[^"\n]+)" ' + PLACE.pattern)


class Citation(NamedTuple):
    """Words, and where they are said to stand."""

    quote: str
    file: str
    line: int

    def __str__(self) -> str:
        """Return it as it is written in a report."""
        return f'"{self.quote}" ({self.file}:{self.line})'


def cited(text: str) -> list[Citation]:
    """Return the citations of a text, in order."""
    return [Citation(found["quote"], found["file"], int(found["line"])) for found in QUOTED.finditer(text)]


def problems(text: str, library: Library) -> list[str]:
    """Return what is wrong with the citations of a text."""
    found = cited(text)
    wrong = [f"{each.file}:{each.line} does not say {each.quote!r}" for each in found if not library.holds(*each)]
    if len(PLACE.findall(text)) > len(found):
        wrong.append('a place is named without the words that stand there: write "words" (file:line)')
    return wrong if found else [*wrong, 'nothing is cited: write "words" (file:line)']
