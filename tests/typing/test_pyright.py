"""What the README and the guides show passes pyright, since readers copy it; what is wrong to call does not."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_documents import DOCUMENTS, ROOT
from tests.typing.test_bad_calls import EXPECTED, SOURCE

Refused = defaultdict[str, dict[int, str]]
"""File -> line -> what is said of it."""

# A page is no module: its programs stand below each other, and it says of a value that it is there by using it.
CONFIG = {
    "typeCheckingMode": "standard",
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT / "src")],
    "reportDeprecated": "error",
    "reportMissingImports": "none",
    "reportOptionalContains": "none",
    "reportOptionalMemberAccess": "none",
    "reportOptionalSubscript": "none",
    "reportPossiblyUnboundVariable": "none",
    "reportRedeclaration": "none",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Refused:
    """What pyright refuses of all pages and of the bad calls: together, since it looks at the library for each run."""
    folder = tmp_path_factory.mktemp("pyright")
    pages = {path.relative_to(ROOT).as_posix().replace("/", "."): path for path in DOCUMENTS}
    for name, path in pages.items():
        text = "\n".join(python_lines(path.read_text(encoding="utf-8")))
        (folder / name).with_suffix(".py").write_text(text, encoding="utf-8")
    (folder / "bad_calls.py").write_text(f"{SOURCE}# pyright: strict\n", encoding="utf-8")
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", str(project), "--outputjson", "--pythonpath", sys.executable]
    # With room for what is young, pyright collects garbage less often: a sixth of its processor time.
    environment = {
        **os.environ,
        "NODE_OPTIONS": "--max-semi-space-size=128",
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] > len(pages)
    found: Refused = defaultdict(dict)
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).stem][each["range"]["start"]["line"] + 1] = each["message"]
    return found


def test_pyright_refuses_each_bad_call_and_no_other_line(refused: Refused) -> None:
    assert set(refused["bad_calls"]) == set(EXPECTED), refused["bad_calls"]


def test_the_code_of_every_page_passes_pyright(refused: Refused) -> None:
    assert {page: lines for page, lines in refused.items() if page != "bad_calls"} == {}


def python_lines(text: str) -> Iterator[str]:
    """Yield a page with nothing but its Python left, each line where it stands."""
    is_python = False
    for line in text.splitlines():
        is_fence = line.startswith("```")
        yield line if is_python and not is_fence else ""
        is_python = line == "```python" if is_fence else is_python


def test_only_python_is_left_of_a_page() -> None:
    page = "Text.\n```python\nx = 1\n```\nText.\n```console\n$ ls\n```\n```python\ny = 2\n```\n"
    assert [*python_lines(page)] == ["", "", "x = 1", "", "", "", "", "", "", "y = 2", ""]
