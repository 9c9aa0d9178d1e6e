"""What the log calls the module of a program is the same in the processes that the program begins."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def look(state):
    return state


def name():
    from steptrail.domain.continuation.names import function_name

    return function_name(look)


if __name__ == "__main__":
    names = {name()}
    for method in ("spawn", "forkserver"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            names.add(pool.submit(name).result())
    print(*names)
"""


@pytest.mark.parametrize("command", [["app.py"], ["-m", "app"]])
def test_a_program_has_one_name_in_the_processes_of_its_pool(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "app.py").write_text(PROGRAM, encoding="utf-8")
    said = subprocess.check_output([sys.executable, *command], cwd=tmp_path, text=True, timeout=600)
    assert said == "app.look\n"
