"""The files that values name: found in them, put into them, and refused where their bytes are nowhere.

Messages that are given hold files with their bytes. What is stored of them names each by its digest alone; the bytes go
into the store beside the commit that first names them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from operator import is_
from typing import Any, TypeVar, cast, get_args

from msgspec import structs

from steptrail.domain.base import Value, types_of
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.messages import FilePart, Message, Part, TextPart, ToolResultPart

T = TypeVar("T")


def files_in(value: object, at: str = "") -> Iterator[tuple[str, FilePart]]:
    """Yield each file that a value names, with its place as a JSON pointer into the stored form."""
    if isinstance(value, FilePart):
        yield at, value
    elif isinstance(value, tuple):
        for place, item in enumerate(cast("tuple[object, ...]", value)):
            yield from files_in(item, f"{at}/{place}")
    elif isinstance(value, Value):
        for field, stored in fields_with_files(type(value)):
            yield from files_in(getattr(value, field), f"{at}/{stored}")


def names_files(value: Value) -> bool:
    """Tell whether a value names any file, in fewer calls than `files_in` takes: each event of a step is asked."""
    for field, _ in fields_with_files(type(value)):
        held = getattr(value, field)
        # A cast would be a call, and each event of a step comes here.
        for item in held if isinstance(held, tuple) else (held,):  # pyright: ignore[reportUnknownVariableType]
            if isinstance(item, FilePart):
                return True
            if isinstance(item, Value) and fields_with_files(type(item)) and names_files(item):
                return True
    return False


def with_files(value: T, put: Callable[[FilePart], FilePart]) -> T:
    """Return the value with what `put` returns in the place of each file; the value itself where it names none."""
    if isinstance(value, FilePart):
        return cast("T", put(value))
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        made = tuple([with_files(item, put) for item in items])
        return cast("T", items if all(map(is_, made, items)) else made)
    if isinstance(value, Value):
        held = {field: getattr(value, field) for field, _ in fields_with_files(type(value))}
        changed = {field: made for field, item in held.items() if (made := with_files(item, put)) is not item}
        return structs.replace(value, **changed) if changed else value
    return value


def with_bytes_of(given: object, copy: T) -> T:
    """Return a copy that was read back from its stored form, with the bytes of the files of what it is a copy of."""
    # By all of the part: the same bytes may come under two names.
    at_hand = {part: part for _, part in files_in(given) if part.data is not None}
    return with_files(copy, lambda part: at_hand.get(part, part)) if at_hand else copy


def reference_to(part: FilePart) -> FilePart:
    """Return what is stored of a file: its part, without the bytes."""
    return part if type(part) is FilePart else FilePart(**structs.asdict(part))


def with_newest_files(messages: Iterable[Message], most: int) -> list[Message]:
    """Return the messages with at most `most` files, the newest, and with words in the place of each earlier one."""
    shown = list(messages)
    for place in reversed(range(len(shown))):
        if count := len(shown[place].files):
            shown[place], most = _with_newest_of(shown[place], most), max(0, most - count)
    return shown


def _with_newest_of(message: Message, most: int) -> Message:
    earlier, parts = max(0, len(message.files) - most), list[Part]()
    for part in message.parts:
        if isinstance(part, FilePart) and earlier:
            part, earlier = TextPart(text=_earlier(part)), earlier - 1
        elif isinstance(part, ToolResultPart) and part.files and earlier:
            gone, kept = part.files[:earlier], part.files[earlier:]
            text = "\n".join(filter(None, (part.text, *map(_earlier, gone))))
            part, earlier = structs.replace(part, text=text, files=kept), earlier - len(gone)
        parts.append(part)
    return structs.replace(message, parts=tuple(parts))


def _earlier(part: FilePart) -> str:
    return f"{part.placeholder[:-1]}, earlier]"


def refuse_absent_files(given: Sequence[Value], what: str, known: Collection[str] = ()) -> None:
    """Raise `ConfigurationError` for a file whose bytes are not at hand, or that somebody else than the user says.

    A digest alone is refused, unless it is `known`: it could be that of a file of somebody else. `given` are messages,
    or other values that may name files, and `what` names what they were given to.
    """
    for value in given:
        for at, part in files_in(value):
            # That of a result of a tool stands inside of its part.
            if isinstance(value, Message) and not value.is_user() and "files" not in at:
                role = value.role.value
                raise ConfigurationError(f"{what}: files stand in messages of the user, not in one of the {role}")
            if part.data is None and part.digest not in known:
                raise ConfigurationError(
                    f"{what}: the file {part.placeholder} is named without its bytes: make it with `File.from_bytes`"
                )


@cache
def fields_with_files(kind: type[Value]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a class that may name files, each with its stored name. Most events have none."""
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return tuple((field, stored) for field, stored in names if _may_name(types_of(kind)[field]))


def _may_name(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return issubclass(annotation, FilePart) or bool(fields_with_files(annotation))
    return any(map(_may_name, get_args(annotation)))
