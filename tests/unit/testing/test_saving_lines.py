"""A file of a session: what stood in its place stays until it is whole, and what is no file is never replaced."""

import os
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


def test_what_is_no_file_is_written_into_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save_lines(pipe, [b"one\n", b"two\n"])
        assert os.read(reader, 100) == b"one\ntwo\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("folder/s1.jsonl")
    for line in (b"first\n", b"second\n"):
        save_lines(tmp_path / "link", [line])
        assert (tmp_path / "folder" / "s1.jsonl").read_bytes() == line
    assert (tmp_path / "link").is_symlink()
