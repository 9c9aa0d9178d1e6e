"""The files of a request, read for a driver and rendered as its protocol takes them.

A file that a protocol cannot take is told of in words, and so are the oldest files of a request that would hold too
many: a provider that refuses a conversation would refuse it for ever.
"""

from base64 import b64encode
from itertools import count
from typing import Final

from msgspec.structs import replace

from steptrail.domain.files import files_in, with_files
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import FilePart
from steptrail.runtime.kernel.files import SHOWN_IMAGES, File

PDF: Final = "application/pdf"
_TEXTS: Final = frozenset({"application/json", "application/xml", "application/yaml"})
_MOST_FILES, _MOST_BYTES, _LARGEST_TEXT = 100, 22 * 1024 * 1024, 4 * 1024 * 1024
"""The most that every provider takes in one request: it may have 32 MB, and bytes become a third more in it.

A text above the largest has more than a million tokens, and is refused with each later turn as well.
"""


async def with_bytes(request: ModelRequest, *, shows_files: bool) -> ModelRequest:
    """Return the request with the bytes of its newest files, as many as a provider takes. Raises `FileUnreadable`.

    Those that no protocol takes are left without, and unless the model `shows_files`, all that are no text.
    """
    messages = tuple(request.messages)
    parts = list(enumerate(part for _, part in files_in(messages)))
    taken, left, read = set[int](), _MOST_BYTES, dict[str, bytes]()
    for place, part in reversed(parts):
        is_taken = _is_text(part) or (shows_files and part.mime_type in {PDF, *SHOWN_IMAGES})
        if not is_taken or part.size > (_LARGEST_TEXT if _is_text(part) else _MOST_BYTES):
            continue
        left -= part.size
        if left < 0 or len(taken) == _MOST_FILES:
            break
        taken.add(place)
        if part.digest not in read:
            read[part.digest] = await request.read(part.digest)
    places = count()

    def put(part: FilePart) -> FilePart:
        return File.of(part, read[part.digest]) if next(places) in taken else part

    return replace(request, messages=with_files(messages, put)) if taken else request


def is_image(part: FilePart) -> bool:
    """Tell whether it is an image that models can be shown, with its bytes at hand."""
    return part.data is not None and part.mime_type in SHOWN_IMAGES


def base64_of(part: FilePart) -> str:
    """Return the bytes as text."""
    return b64encode(part.data or b"").decode()


def data_uri(part: FilePart) -> str:
    """Return the bytes as an address that holds them."""
    return f"data:{part.mime_type};base64,{base64_of(part)}"


def text_in(part: FilePart) -> str | None:
    """Return the text that a file of text holds; None for any other file."""
    if part.data is None or not _is_text(part):
        return None
    try:
        return part.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _is_text(part: FilePart) -> bool:
    return part.mime_type.startswith("text/") or part.mime_type in _TEXTS


def in_words(part: FilePart) -> str:
    """Return what a model is told of a file that its protocol does not take: its text, or its name, type and size."""
    if (text := text_in(part)) is not None:
        return f"{part.placeholder}\n{text}"
    return part.placeholder
