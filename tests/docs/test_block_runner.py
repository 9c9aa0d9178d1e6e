"""The runner of code blocks: what it shares between blocks, and what it refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sybil.example import SybilFailure

RunBlocks = Callable[[Path], int]


def write(tmp_path: Path, *blocks: tuple[str, str]) -> Path:
    path = tmp_path / "sample.md"
    path.write_text("# Sample\n\n" + "\n".join(f"```{tag}\n{code}\n```\n" for tag, code in blocks), encoding="utf-8")
    return path


def test_blocks_share_a_namespace_and_a_directory(tmp_path: Path, run_blocks: RunBlocks) -> None:
    sample = write(
        tmp_path,
        ("python", "name = 'kept.txt'"),
        ("python", "from pathlib import Path\nPath(name).write_text('hello')"),
        ("console", "$ test -s kept.txt\n$ echo more > second.txt"),
        ("python", "assert Path('second.txt').read_text() == 'more\\n'"),
    )
    assert run_blocks(sample) == 4
    assert not Path(sample.parent / "kept.txt").exists()


def test_a_console_block_uses_this_environment(tmp_path: Path, run_blocks: RunBlocks) -> None:
    assert run_blocks(write(tmp_path, ("console", "$ python -c 'import steptrail'"))) == 1


def test_a_stated_exit_status_is_required(tmp_path: Path, run_blocks: RunBlocks) -> None:
    assert run_blocks(write(tmp_path, ("console", "$ exit 3  # exit 3"))) == 1


@pytest.mark.parametrize("command", ["$ exit 3", "$ exit 3  # exit 4", "$ true  # exit 1", "no prompt"])
def test_another_exit_status_fails(command: str, tmp_path: Path, run_blocks: RunBlocks) -> None:
    with pytest.raises(SybilFailure):
        run_blocks(write(tmp_path, ("console", command)))


def test_a_python_block_that_raises_fails(tmp_path: Path, run_blocks: RunBlocks) -> None:
    with pytest.raises(ZeroDivisionError):
        run_blocks(write(tmp_path, ("python", "1 / 0")))


def test_what_is_printed_below_a_command_is_what_it_prints(tmp_path: Path, run_blocks: RunBlocks) -> None:
    block = "$ printf 'tea  0.25 s\\nid 0123abcd4567\\n'\ntea 17.50 s\nid ffff0000ffff\n$ echo more"
    assert run_blocks(write(tmp_path, ("console", block))) == 1


@pytest.mark.parametrize("printed", ["coffee", "tea\nand more", "te"])
def test_another_output_fails(printed: str, tmp_path: Path, run_blocks: RunBlocks) -> None:
    with pytest.raises(SybilFailure):
        run_blocks(write(tmp_path, ("console", f"$ echo tea\n{printed}")))


def test_other_languages_are_not_run(tmp_path: Path, run_blocks: RunBlocks) -> None:
    assert run_blocks(write(tmp_path, ("sh", "exit 1"), ("text", "no code"))) == 0
