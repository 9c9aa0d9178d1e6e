"""The README's quickstart as a file of one's own: it can be run twice, and be handed to the command line."""

import re
import subprocess
import sys
from pathlib import Path

from steptrail import Steptrail

README = Path(__file__).parents[2] / "README.md"


def test_the_quickstart_can_be_run_twice_and_starts_nothing_when_it_is_imported(tmp_path: Path) -> None:
    block = re.search(r"## Quickstart\n\n```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "quick.py").write_text(block[1], encoding="utf-8")

    def ran(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    # On the command line first: what its import began would be stored, too.
    answer = ran("-m", "steptrail", "run", "quick.py", "Is there tea?", "--id", "mine", "--store", "sqlite:///runs.db")
    assert answer.splitlines()[-1] == "There are 3 left."
    assert [ran("quick.py").splitlines()[0] for _ in range(2)] == ["completed completed There are 3 left."] * 2
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        assert [(row.session_id, row.executions) for row in trail.runs()] == [("tea-1", 1), ("mine", 1)]
