"""Files with their bytes, as people and tools give them."""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from mimetypes import MimeTypes
from pathlib import Path
from typing import ClassVar, Self, TypeVar, cast, get_args

from msgspec import structs

from steptrail.domain.errors import ConfigurationError, FileUnreadable, shown
from steptrail.domain.files import files_in, reference_to, with_files
from steptrail.domain.kernel.given import a_text, a_whole
from steptrail.domain.messages import FilePart, ImageDetail, size_text
from steptrail.runtime.kernel.ports import EventStore

T = TypeVar("T")

LARGEST_FILE = 20 * 1024 * 1024
"""The bytes that a file may have unless `at_most` says otherwise: what providers take in one request."""

SHOWN_IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The types of images that are known by their bytes, hold no program, and are shown by models and browsers."""
ANYTHING = "application/octet-stream"
"""The type of a file of which nobody knows any."""
_LONGEST_NAME = 255
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")
_NOT_OF_A_NAME = re.compile(r"\A.*[/\\]|[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", re.DOTALL)
_MAGIC: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


class File(FilePart, tag="file", frozen=True, kw_only=True, eq=False, gc=True, dict=True):
    """A file of any type, for a message of the user or as the result of a tool.

    What is stored of it in the events is a `FilePart`; the bytes are stored once for all events that name them.
    """

    _KIND: ClassVar[str] = ""
    """The beginning of the types that such a file may have."""

    @property
    def data(self) -> bytes | None:
        """The bytes."""
        return cast("bytes | None", vars(self).get("bytes"))

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        mime_type: str | None = None,
        *,
        name: str | None = None,
        detail: ImageDetail | None = None,
        at_most: int = LARGEST_FILE,
    ) -> Self:
        """Return the file that has these bytes. `detail` says how closely a model is to look at an image.

        PNG, JPEG, GIF, WebP and PDF are known by their bytes; any other file has the type that is said, or else that
        of its name. Raises `ConfigurationError` for an empty file, for one of more than `at_most` bytes, and for a type
        that is none.
        """
        if not isinstance(cast("object", data), bytes | bytearray | memoryview):
            raise ConfigurationError(f"a file is made of bytes, not of {type(data).__name__}")
        if detail not in (None, *get_args(ImageDetail)):
            raise ConfigurationError(f"the detail of an image is auto, low or high, not {shown(str(detail))}")
        data, most = bytes(data), a_whole(at_most, "`at_most`", least=1)
        called = _NOT_OF_A_NAME.sub("", a_text(name or "", "the name of a file"))[-_LONGEST_NAME:] or None
        what = "the file" if called is None else f"the file {shown(called)}"
        if not data:
            raise ConfigurationError(f"{what} is empty: providers refuse it, and so every later request")
        if len(data) > most:
            has, may = size_text(len(data)), size_text(most)
            raise ConfigurationError(f"{what} has more than {may}: {has}; `at_most` allows more")
        digest, kind = sha256(data).hexdigest(), _type_of(data, mime_type, called)
        part = FilePart(digest=digest, mime_type=kind, size=len(data), filename=called, detail=detail)
        if not kind.startswith(cls._KIND):
            raise ConfigurationError(f"{part.placeholder} is no image: give it as a `File`")
        return cls.of(part, data)

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        mime_type: str | None = None,
        *,
        name: str | None = None,
        detail: ImageDetail | None = None,
        at_most: int = LARGEST_FILE,
    ) -> Self:
        """Return the file at a path, under its own name unless another one is given. It is read at once.

        Raises what `from_bytes` raises, and `OSError` for a file that cannot be read.
        """
        with Path(path).open("rb") as file:
            # A device has no end: one byte too many is enough to refuse it.
            data = file.read(a_whole(at_most, "`at_most`", least=1) + 1)
        called = Path(path).name if name is None else name
        return cls.from_bytes(data, mime_type, name=called, detail=detail, at_most=at_most)

    @classmethod
    def of(cls, part: FilePart, data: bytes) -> Self:
        """Return a stored part together with its bytes."""
        made = cls(**structs.asdict(part))
        vars(made)["bytes"] = data
        return made

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).of, (reference_to(self), self.data)


class Image(File, tag="file", frozen=True, kw_only=True, eq=False, gc=True, dict=True):
    """An image, for a message of the user or as the result of a tool. Any other file is refused."""

    _KIND: ClassVar[str] = "image/"


async def stored_file(store: EventStore, digest: str) -> bytes:
    """Return the bytes of a file as they were given. Raises `FileUnreadable`."""
    data = await store.file(digest)
    if data is None:
        raise FileUnreadable(digest, "the store does not have it")
    if sha256(data).hexdigest() != digest:
        raise FileUnreadable(digest, "what is stored has another digest; `steptrail doctor` names what else is damaged")
    return data


async def with_stored_bytes(store: EventStore, value: T) -> T:
    """Return a value with the stored bytes of each file that it names. Raises `FileUnreadable`."""
    named = {part.digest for _, part in files_in(value) if part.data is None}
    held = {digest: await stored_file(store, digest) for digest in sorted(named)}
    return with_files(value, lambda part: part if part.data is not None else File.of(part, held[part.digest]))


def is_mime_type(text: str) -> bool:
    """Tell whether a text may be the type of a file."""
    return _MIME_TYPE.fullmatch(text) is not None


def _type_of(data: bytes, said: str | None, name: str | None) -> str:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    known = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if known is not None:
        return known
    if said is None:
        named, packed = _types_of_names().guess_type(name or "")
        return named if named is not None and packed is None else ANYTHING
    kind = a_text(said, "the type of a file").partition(";")[0].strip().lower()
    if not is_mime_type(kind):
        raise ConfigurationError(f"{shown(said)} is no type of a file: it is one such as 'text/csv'")
    return kind


@cache
def _types_of_names() -> MimeTypes:
    # Those of Python alone: tables of the machine differ, and on another one the same file would be another input.
    types = MimeTypes()
    types.add_type("application/yaml", ".yaml")
    types.add_type("application/yaml", ".yml")
    return types
