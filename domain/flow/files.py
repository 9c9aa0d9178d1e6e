"""Files in the values of a workflow: each is a JSON object that says which file it is, and never holds its bytes.

The form is that of a `FilePart`. Any JSON may look like one, so that alone opens nothing: an object is a file if an
event of the stream came with that file, by its digest. These are the `known` ones here.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from msgspec import structs

from steptrail.domain.base import full_form, made
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.files import reference_to
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart

Known = Mapping[str, FilePart]
"""Files by their digests."""


def form_of(part: FilePart) -> dict[str, JsonValue]:
    """Return what stands for a file in a value: its digest, type, size, name and detail."""
    return cast("dict[str, JsonValue]", full_form(reference_to(part)))


def file_in(value: JsonValue, known: Known) -> FilePart | None:
    """Return the known file for which a value stands; None for any other value.

    Its type and size are those with which it came.
    """
    if not known or (said := part_said_by(value)) is None or (part := known.get(said.digest)) is None:
        return None
    return as_said(part, said)


def as_said(known: FilePart, said: FilePart) -> FilePart:
    """Return a known file under the name, and with the detail, that somebody has said."""
    return structs.replace(known, filename=said.filename, detail=said.detail)


def files_named(value: JsonValue, known: Known) -> Iterator[FilePart]:
    """Yield each known file for which a value, or a part of it, stands."""
    if not known:
        return
    if (part := file_in(value, known)) is not None:
        yield part
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                yield from files_named(item, known)


def in_words(value: JsonValue, known: Known) -> JsonValue:
    """Return the value with words, such as `[image/png, 812 kB, a.png]`, in the place of each known file."""
    if not known or not isinstance(value, dict | list):
        return value
    if (part := file_in(value, known)) is not None:
        return part.placeholder
    if isinstance(value, dict):
        return {key: in_words(item, known) for key, item in value.items()}
    return [in_words(item, known) for item in value]


def refuse_unknown(value: JsonValue, known: Known, what: str) -> None:
    """Raise `ConfigurationError` for an object that stands for a file that did not come with its bytes.

    Its digest could be that of a file of somebody else. `what` names the value that was given.
    """
    if isinstance(value, dict | list):
        if (said := part_said_by(value)) is not None and said.digest not in known:
            why = "is named without its bytes: give it as a `File`"
            raise ConfigurationError(f"{what}: the file {said.placeholder} {why}")
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                refuse_unknown(item, known, what)


def part_said_by(value: JsonValue) -> FilePart | None:
    """Return the file for which a value says that it stands, whether it is known or not; None for other values."""
    if not isinstance(value, dict) or value.get("kind") != FilePart.kind:
        return None
    try:
        return made(FilePart, value)
    except ValueError:
        return None
