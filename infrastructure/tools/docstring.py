"""The parts of a docstring that the model reads: the first paragraph, and the `Args:` section in Google's form.

Text that does not look exactly like that form is left alone: a description that is missing costs less than one that
stands at the wrong parameter.
"""

import inspect
import re
from collections.abc import Iterable

_ARGS = re.compile(r"^(Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ENTRY = re.compile(r"^(?P<name>\w+)(?:\s*\([^()]*\))?:\s*(?P<text>.*)$")


def summary(docstring: str | None) -> str:
    """Return the first paragraph as one line, or empty text."""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        if not line.strip() or _SECTION.match(line):
            break
        lines.append(line.strip())
    return " ".join(lines)


def parameter_docs(docstring: str | None, parameters: Iterable[str]) -> dict[str, str]:
    """Return the description of each of `parameters` that the `Args:` section explains."""
    known = frozenset(parameters)
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    entry_indent: int | None = None
    inside = False
    for line in inspect.cleandoc(docstring or "").splitlines():
        if not inside:
            inside = _ARGS.match(line) is not None
            continue
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            break
        entry_indent = indent if entry_indent is None else entry_indent
        if indent > entry_indent:
            if current is not None:
                current.append(line.strip())
            continue
        match = _ENTRY.match(line.strip())
        current = None
        if match and match["name"] in known:
            current = texts.setdefault(match["name"], [])
            current.append(match["text"])
    return {name: text for name, parts in texts.items() if (text := " ".join(filter(None, parts)))}
