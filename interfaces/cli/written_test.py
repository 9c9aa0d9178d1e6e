"""The text of a test that replays a recorded session and expects the decisions that were recorded."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from steptrail.interfaces.python.loading import split_reference
from steptrail.interfaces.python.recording import Recording
from steptrail.projections.decisions import project_decisions

_TEXT = '''"""Session {session} again, without its model and its tools: it decides what it decided.

`steptrail export --as-test` wrote this, and beside it the recording, which holds what the run held. Where a change of
the agent is meant, take over what the test finds now, or record the session again.
"""

import asyncio
from pathlib import Path

from steptrail.testing import Recording, Replay, load_agent, replay

HERE = Path(__file__).parent
RECORDING = HERE / {recording}
AGENT = {agent}


def test_{name}_decides_what_it_decided() -> None:
    async def replayed() -> Replay:
        async with load_agent(AGENT) as agent:
            return await replay(agent, Recording.load(RECORDING))

    again = asyncio.run(replayed())

    # After which step, whether it goes on, who decided that, why it stops.
    assert list(again.decisions) == {decisions}

    # In which step, which tool, the digest of its arguments, how it ended.
    assert list(again.calls) == {calls}

    # Status, stop reason, who decided that.
    assert list(again.endings) == {endings}
'''


def module_name(session: str) -> str:
    """Return what the session is called where only a name in Python will do."""
    return re.sub(r"[^a-z0-9]+", "_", session.lower()).strip("_") or "session"


def written_test(recording: Recording, test: Path, beside: Path, agent: str) -> str:
    """Return the text of the test file `test`, which finds the recording in `beside`."""
    found = project_decisions(recording.records)
    return _TEXT.format(
        session=_quoted(recording.session),
        name=module_name(recording.session),
        recording=_quoted(beside.name),
        agent=_agent(agent, test),
        decisions=_rows(found.decisions),
        calls=_rows(found.calls),
        endings=_rows(found.endings),
    )


def _agent(reference: str, test: Path) -> str:
    target, name = split_reference(reference)
    if not Path(target).is_file():
        return _quoted(f"{target}:{name}")
    # From the test's own place, so that it may be run from any folder.
    path = Path(os.path.relpath(Path(target).resolve(), test.resolve().parent)).as_posix()
    return f'f"{{HERE}}/" {_quoted(f"{path}:{name}")}'


def _rows(rows: Sequence[tuple[object, ...]]) -> str:
    if not rows:
        return "[]"
    cells = [[_quoted(value) if isinstance(value, str) else repr(value) for value in row] for row in rows]
    lines = [f"        ({', '.join(row)}),\n" for row in cells]
    return f"[\n{''.join(lines)}    ]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # which is a text in Python as well
