"""What the README and the guides show passes a type checker, since readers copy it into code that is checked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.test_documents import DOCUMENTS, ROOT

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


def test_the_code_of_every_page_passes_pyright(tmp_path: Path) -> None:
    pages = {path.relative_to(ROOT).as_posix().replace("/", "."): path for path in DOCUMENTS}
    for name, path in pages.items():
        text = "\n".join(python_lines(path.read_text(encoding="utf-8")))
        (tmp_path / name).with_suffix(".py").write_text(text, encoding="utf-8")
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", str(project), "--outputjson", "--pythonpath", sys.executable]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(run.stdout)
    refused = [
        f"{Path(each['file']).stem}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]
    assert report["summary"]["filesAnalyzed"] >= len(pages)
    assert refused == []


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
