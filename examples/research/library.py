"""The files that may be read, as tools. What is asked for is confined to the folder, and cut to a size."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from steptrail import ToolEffect, tool

__all__ = ["Library"]

TEXT = frozenset({".md", ".py", ".rst", ".txt"})
MOST_HITS = 60
MOST_CHARACTERS = 6000


class Library:
    """The text files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file. Raises `PermissionError` outside of the folder, `OSError` for what is no file."""
        path = (self._folder / file).resolve()  # resolved first: a link may lead out of the folder
        if not path.is_relative_to(self._folder) or path.suffix not in TEXT:
            raise PermissionError(f"{file!r} is not a text file of the library")
        return path.read_text(encoding="utf-8", errors="replace").splitlines()

    def holds(self, quote: str, file: str, line: int) -> bool:
        """Tell whether these words stand in that line, counted from 1."""
        try:
            lines = self.lines(file)
        except OSError:
            return False
        return 1 <= line <= len(lines) and bool(quote.strip()) and quote in lines[line - 1]

    @tool(effect=ToolEffect.READ)
    def list_files(self) -> list[str]:
        """List the files."""
        return list(self._files())

    @tool(effect=ToolEffect.READ)
    def search(self, text: str, file: str | None = None) -> list[dict[str, str | int]]:
        """Find plain text, whatever its case, in all files or in one. Lines count from 1."""
        hits: list[dict[str, str | int]] = []
        for name in [file] if file else self._files():
            for number, line in enumerate(self.lines(name), 1):
                if text.lower() in line.lower():
                    hits.append({"file": name, "line": number, "text": line})
        return hits[:MOST_HITS]

    @tool(effect=ToolEffect.READ)
    def read(
        self, file: str, first: Annotated[int, Field(ge=1)] = 1, count: Annotated[int, Field(ge=1, le=200)] = 80
    ) -> str:
        """Read lines of a file, each with its number."""
        chosen = enumerate(self.lines(file)[first - 1 : first - 1 + count], first)
        return "\n".join(f"{number}: {line}" for number, line in chosen)[:MOST_CHARACTERS]

    def _files(self) -> Iterator[str]:
        for path in sorted(self._folder.rglob("*")):
            if path.suffix in TEXT and path.resolve().is_relative_to(self._folder) and path.is_file():
                yield path.relative_to(self._folder).as_posix()
