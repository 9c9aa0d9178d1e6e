"""Large values: what stands in their place on a page, and the page that shows one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from steptrail.domain.json_value import JsonValue
from steptrail.interfaces.http.inspector.words import pretty

LARGE: Final = 8_000
"""Characters of JSON above which a value is a link."""


class Large(NamedTuple):
    """A value that is not on the page: its path, as a JSON pointer, and its size in characters of JSON."""

    path: str
    size: int


class Abridged(NamedTuple):
    """JSON as text, and what was left out of it."""

    text: str
    left_out: Sequence[Large]


def abridged(value: JsonValue, *, most: int = LARGE) -> Abridged:
    """Return JSON as text, with a mark in the place of each part that is larger than `most`."""
    left_out: list[Large] = []
    return Abridged(pretty(_cut(value, "", most, left_out)), left_out)


def at_path(value: JsonValue, path: str) -> JsonValue:
    """Return the part of a value under a JSON pointer. Raises `LookupError` when there is none."""
    if path and not path.startswith("/"):
        raise LookupError(path)
    for word in path.split("/")[1:]:
        name = word.replace("~1", "/").replace("~0", "~")
        match value:
            case dict():
                value = value[name]
            case list() if name.isascii() and name.isdigit() and len(name) < 10:
                value = value[int(name)]
            case _:
                raise LookupError(path)
    return value


def _cut(value: JsonValue, path: str, most: int, left_out: list[Large]) -> JsonValue:
    """Return the value without its largest parts: the deepest that are still too large."""
    if not isinstance(value, dict | list | str) or (length := len(pretty(value))) <= most:
        return value
    if isinstance(value, str):
        left_out.append(Large(path, length))
        return f"{value[:200]}… (of {len(value)} characters)"
    parts = list(value.items()) if isinstance(value, dict) else [(str(at), each) for at, each in enumerate(value)]
    if len(parts) > 200 or path.count("/") > 20:
        left_out.append(Large(path, length))
        return f"… ({len(parts)} entries)"
    cut = {name: _cut(each, f"{path}/{escaped(name)}", most, left_out) for name, each in parts}
    if sum(len(pretty(each)) for each in cut.values()) > 4 * most:
        left_out[:] = [each for each in left_out if not each.path.startswith(f"{path}/")] + [Large(path, length)]
        return f"… ({len(parts)} entries)"
    return cut if isinstance(value, dict) else list(cut.values())


def escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
