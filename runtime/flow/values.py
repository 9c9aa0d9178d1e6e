"""The values that people and functions give to a workflow: as JSON, with the files in them taken out."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from steptrail.domain.errors import PASSING, ConfigurationError, FileUnreadable, shown
from steptrail.domain.files import refuse_absent_files
from steptrail.domain.flow.files import Known, as_said, form_of, part_said_by
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.storable import storable, type_name
from steptrail.runtime.kernel.files import File, stored_file
from steptrail.runtime.kernel.json_form import files_left_behind, nearer_to_json
from steptrail.runtime.kernel.ports import EventStore


class GivenValues:
    """Makes JSON of values. In the place of each file stands its form; those with their bytes are kept as `files`."""

    def __init__(self) -> None:
        self._came: dict[str, FilePart] = {}
        self._absent: list[FilePart] = []

    @property
    def files(self) -> tuple[FilePart, ...]:
        """The files that have come so far, each once."""
        return tuple(self._came.values())

    def value(self, given: object, where: str) -> JsonValue:
        """Return a value as JSON; see `to_json_value`."""
        return storable(given, where, convert=self._nearer)

    def values(self, given: Mapping[str, object] | None, where: str) -> dict[str, JsonValue]:
        """Return the values of a mapping as JSON, none for None. Raises `ConfigurationError` for what is no mapping."""
        if given is not None and not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{where}: Expected `object`, got `{type_name(cast('object', given))}`")
        return {name: self.value(value, f"{where}.{name}") for name, value in (given or {}).items()}

    def refuse_absent(self, what: str, known: Known) -> None:
        """Raise `ConfigurationError` for a part that has come without its bytes, and is not known either."""
        absent = [part for part in self._absent if part.digest not in self._came]
        refuse_absent_files(absent, what, known)

    def _nearer(self, value: object) -> object:
        if isinstance(value, FilePart):
            self._keep(value)
            return form_of(value)
        form = nearer_to_json(value)
        for part in files_left_behind(value):
            self._keep(part)
        return form

    def _keep(self, part: FilePart) -> None:
        if part.data is not None:
            self._came.setdefault(part.digest, part)
        else:
            self._absent.append(part)


class FilesOfRun:
    """The files that came with the events of a run, by digest, and their bytes, which are in the store.

    `is_away` says that the store has refused one that it may give later.
    """

    def __init__(self, store: EventStore, known: Known, run: str) -> None:
        self._store, self._known, self._run = store, known, run
        self._loop = asyncio.get_running_loop()
        self.is_away = False

    async def read(self, given: JsonValue | FilePart) -> File:
        """Return the file that a part, a digest or a value names, with its bytes.

        Raises `ConfigurationError` for a value that names none, and `FileUnreadable`, also for a file that is none of
        the run: a digest alone opens nothing.
        """
        said = given if isinstance(given, FilePart) else part_said_by(given)
        digest = said.digest if said is not None else given if isinstance(given, str) else None
        if digest is None:
            raise ConfigurationError(f"{shown(repr(given))} stands for no file of {self._run}")
        if (part := self._known.get(digest)) is None:
            raise FileUnreadable(digest, f"nothing in {self._run} names it")
        return File.of(part if said is None else as_said(part, said), await self.bytes_of(digest))

    async def bytes_of(self, digest: str) -> bytes:
        """Return the bytes of a file of the run. Raises `FileUnreadable`."""
        try:
            return await stored_file(self._store, digest)
        except PASSING:
            self.is_away = True
            raise

    def read_in_thread(self, given: JsonValue | FilePart) -> File:
        """Return what `read` returns to a thread beside the event loop. Raises `ConfigurationError` in the loop."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise ConfigurationError("`file_now` is for functions that run in a thread: `await context.file(...)`")
        return asyncio.run_coroutine_threadsafe(self.read(given), self._loop).result()
