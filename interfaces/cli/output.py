"""What is printed, and where: answers on standard output, notes on standard error, a broken pipe on neither.

Text that came from a model or a tool cannot move the cursor or start a new line of a table.
"""

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

import orjson

__all__ = ["Output", "one_line", "printable"]


class Output:
    """Prints for people, or JSON.

    `is_gone` says that nobody reads the answers any more, `failure` why they could not be written.
    """

    def __init__(self, out: TextIO | None, err: TextIO | None, *, as_json: bool = False) -> None:
        self._out, self._err, self.as_json = out, err, as_json
        self.is_gone = False
        self.failure: str | None = None
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal that cannot show a character shows a replacement; it ends no run.
                stream.reconfigure(errors="backslashreplace")

    def line(self, text: str = "") -> None:
        """Print a line of the answer; lines after the reader has gone are dropped."""
        self._print(text)

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
            _write(self._err, text)

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

    def writing(self, text: str) -> None:
        """Print a piece of a line of the answer, at once."""
        self._print(text, end="")

    def data(self, value: object, *, indent: bool = True) -> None:
        """Print JSON."""
        options = orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
        self.line(orjson.dumps(value, option=options).decode())

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
        """Print rows under headers; the last column is not padded."""
        cells = [list(headers), *([one_line(cell) for cell in row] for row in rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
            self.line((indent + "  ".join([*padded, row[-1]])).rstrip())


def printable(text: str) -> str:
    """Return the text with control characters, apart from line ends and tabs, made visible."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, most: int | None = None) -> str:
    """Return the text on one line, cut to at most `most` characters."""
    joined = " ".join(printable(text).split())
    return joined if most is None or len(joined) <= most else joined[: most - 1] + "…"


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
