"""The code in the README, the migration notes, the guides and the examples' pages runs as it is printed."""

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "docs" / "migration.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    # The page of the service needs a server beside it: tests/examples runs what it says.
    *sorted({*(ROOT / "examples").glob("*/README.md")} - {ROOT / "examples" / "service" / "README.md"}),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_code_block_runs(
    document: Path,
    run_blocks: Callable[[Path], int],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = document.read_text(encoding="utf-8")
    if "DATABASE_URL" in text:
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("postgres_url"))
    fences = [line for line in text.splitlines() if line in {"```python", "```console"}]
    assert run_blocks(document) >= len(fences)
