"""A service whose code is in a zip, as `python -m zipapp` and PEX make it, has its pages and its files too."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

_ASKS_FOR_ALL = """
import asyncio, json
import httpx
import steptrail
from steptrail import Steptrail
from steptrail.broadcasting.asgi import event_stream
from steptrail.inspector import Access, inspector

async def ask(app, *paths):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answers = [await client.get(path) for path in paths]
    return {path: [answer.status_code, len(answer.text) > 100] for path, answer in zip(paths, answers)}

async def main():
    async with Steptrail.open("sqlite:///:memory:") as trail:
        pages = inspector(trail, authorize=lambda connection: Access())
        streams = event_stream(trail, authorize=lambda connection, session: True)
        asked = await ask(pages, "/", "/health", "/static/own/inspector.css", "/static/vendor/htmx-4.0.1.min.js")
        print(json.dumps({"where": steptrail.__file__, **asked, **await ask(streams, "/steptrail.js")}))

asyncio.run(main())
"""


def test_pages_and_files_are_served_from_a_zip(tmp_path: Path) -> None:
    packed, package = tmp_path / "service.pyz", Path(__file__).parents[2] / "src" / "steptrail"
    with zipfile.ZipFile(packed, "w") as archive:
        for folder, _, names in os.walk(package, followlinks=True):
            for each in (Path(folder, name) for name in names if not name.endswith(".pyc")):
                archive.write(each, each.relative_to(package.parent))
    environment = {**os.environ, "PYTHONPATH": str(packed)}
    command = [sys.executable, "-c", _ASKS_FOR_ALL]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("where") == str(packed / "steptrail" / "__init__.py")
    assert list(told.values()) == [[200, True]] * 5
