"""A file of a session that could not be written to its end leaves nothing beside it, and what was there as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.interfaces.python.recording import save_lines


def test_a_file_that_could_not_be_written_to_its_end_leaves_nothing_beside_it(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b"half\n"
        raise OSError("No space left on device")

    (tmp_path / "s1.jsonl").write_bytes(b"before\n")
    with pytest.raises(OSError, match="No space left"):
        save_lines(tmp_path / "s1.jsonl", lines())
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("s1.jsonl", b"before\n")]
