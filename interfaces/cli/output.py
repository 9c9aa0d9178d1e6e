"""Printing: answers on standard output, notes on standard error, a broken pipe on neither.

All output passes here, and here it is made harmless: text that came from a model, a tool or a store can neither move
the cursor nor begin a line of its own. No caller has to think of that.
"""

import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TextIO
from unicodedata import category, east_asian_width

import orjson

_LONGEST_CELL, _WIDEST_COLUMN = 200, 60
_JOINING = "\u0620-\u0dff\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
"""The letters from Arabic to Sinhala, and the emoji: what a sign between two of them shows is how they are joined."""
_JOINED = re.compile(f"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])")


class Output:
    """Prints for people, or JSON.

    `is_gone` says that nobody reads the answers any more, `failure` why they could not be written.
    """

    def __init__(self, out: TextIO | None, err: TextIO | None, *, as_json: bool = False) -> None:
        self._out, self._err, self.as_json = out, err, as_json
        encoding = getattr(out, "encoding", None) or "utf-8"
        self._is_unicode = encoding.lower().startswith("utf")
        self.is_gone = False
        self.failure: str | None = None
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal that cannot show a character shows a replacement; it ends no run.
                stream.reconfigure(errors="backslashreplace")

    def line(self, text: str = "") -> None:
        """Print a line of the answer, and no more than one; lines after the reader has gone are dropped."""
        self._print(_flat(text))

    def lines(self, texts: Iterable[str]) -> None:
        """Print many lines of the answer at once."""
        if lines := "\n".join([_flat(text) for text in texts]):
            self._print(lines)

    def text(self, text: str) -> None:
        """Print a text of the answer, with the lines that it has."""
        self._print(printable(text))

    def _print(self, text: str, end: str = "\n") -> None:
        if self.is_gone:
            return
        try:
            _write(self._out, text, end)
        except OSError as error:
            self.is_gone = True
            self.failure = None if isinstance(error, BrokenPipeError) else error.strerror

    def note(self, text: str) -> None:
        """Print a line beside the answer."""
        with suppress(OSError):
            _write(self._err, _flat(text))

    def live(self, text: str) -> None:
        """Print what is going on: among the answers for people, beside them for programs."""
        if self.as_json:
            self.note(text)
        else:
            self.line(text)

    @property
    def shows_writing(self) -> bool:
        """Whether a person watches the answers appear: they go to a terminal, and not as JSON."""
        return not self.as_json and self._out is not None and self._out.isatty()

    @property
    def draws(self) -> bool:
        """Whether the answers go to a terminal that shows block characters."""
        return self.shows_writing and self._is_unicode

    def writing(self, text: str) -> None:
        """Print a piece of the answer, at once."""
        self._print(printable(text), end="")

    def answer(self, value: object, text: str, *, indent: bool = True) -> None:
        """Print an answer: JSON for programs, or a line for people."""
        if self.as_json:
            self.data(value, indent=indent)
        else:
            self.line(text)

    def data(self, value: object, *, indent: bool = True) -> None:
        """Print JSON. Whole numbers stay exact, however long they are."""
        options = orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
        try:
            written = orjson.dumps(value, option=options).decode()
        except TypeError:  # a number of more than 64 bits
            separators = None if indent else (",", ":")
            written = json.dumps(value, ensure_ascii=False, indent=2 if indent else None, separators=separators)
        self.json_text(written)

    def json_text(self, text: str) -> None:
        """Print what is JSON already."""
        self._print("\n".join(_escaped(line, self._is_unicode) for line in text.split("\n")))

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "", is_whole: bool = False
    ) -> None:
        """Print rows under headers; the last column is not padded.

        A cell before it is cut after 200 characters, unless all `is_whole`. No column is wider than 60 for all rows:
        a row with more in it is moved to the right by itself.
        """
        most = None if is_whole else _LONGEST_CELL
        cells = [
            [one_line(cell) for cell in headers],
            *([*(one_line(cell, most) for cell in row[:-1]), *map(one_line, row[-1:])] for row in rows),
        ]
        widths = [min(_WIDEST_COLUMN, max(_columns(row[column]) for row in cells)) for column in range(len(headers))]
        for row in cells:
            padded = [cell + " " * (width - _columns(cell)) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
            self.line((indent + "  ".join([*padded, row[-1]])).rstrip())

    def section(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows as a table with a title, apart from what stands before it; nothing for no rows."""
        if rows:
            self.line()
            self.line(one_line(title))
            self.table(headers, rows, indent="  ")


def printable(text: str) -> str:
    """Return the text with control characters, apart from line ends and tabs, made visible.

    Signs that join letters or emoji stay where they do so. Anywhere else they would be two texts that look the same.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # nearly all are so, and to look at each of a million characters takes a second
    kept = {found.start() for found in _JOINED.finditer(text)}
    return "".join(
        c if _is_harmless(c) or i in kept else c.encode("unicode_escape").decode() for i, c in enumerate(text)
    )


def one_line(text: str, most: int | None = None) -> str:
    """Return the text on one line, cut to at most `most` characters."""
    joined = " ".join(printable(text).split())
    return joined if most is None or len(joined) <= most else joined[: most - 1] + "…"


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: a sign of East Asia takes two, an accent or a joiner none."""
    if text.isascii():
        return len(text)
    return sum(1 + (east_asian_width(c) in "WF") for c in text if category(c) not in {"Mn", "Cf"})


def _is_harmless(c: str) -> bool:
    return c.isprintable() or c in "\n\t" or category(c) == "Zs"


def _flat(text: str) -> str:
    return printable(text).replace("\n", " ").replace("\t", " ")


def _escaped(line: str, is_unicode: bool) -> str:
    """Return a line of JSON in which what a terminal could obey, or not show, is an escape, which means the same."""
    if line.isprintable() and (is_unicode or line.isascii()):
        return line
    return "".join(
        c if _is_harmless(c) and (is_unicode or c.isascii()) else json.dumps(c)[1:-1] if c != "\x7f" else "\\u007f"
        for c in line
    )


def _write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    if stream is None:  # the process was started without it
        return
    try:
        stream.write(text + end)
        stream.flush()
    except OSError:
        # The interpreter flushes once more when it ends, and would complain then.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        raise
