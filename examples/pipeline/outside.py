"""The world around the pipeline, in a folder: a search index, what is published, and a mail server that may be away.

Everything is a file named after its effect id. So what a crash cut off is made again and is there once.
`index-is-away` holds how many more calls of the index fail; as long as `mail-is-away` is there, no mail is sent.
`PIPELINE_SLOW` is how many seconds a release takes after it has been made: time to pull the plug.
"""

import json
import os
import time
from pathlib import Path

from steptrail import ToolContext, ToolEffect, tool

__all__ = ["Outside"]


class Outside:
    """The tools of the pipeline."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @tool(effect=ToolEffect.KEYED)
    def index(self, title: str, summary: str, context: ToolContext) -> str:
        """Put a summary into the search index."""
        away = self._folder / "index-is-away"
        left = int(away.read_text()) if away.exists() else 0
        if left > 0:
            away.write_text(str(left - 1))
            raise ConnectionError("search.example refused the connection")
        self._write("index", context.effect_id, {"title": title, "summary": summary})
        return "indexed"

    @tool(effect=ToolEffect.KEYED)
    def release(self, title: str, text: str, context: ToolContext) -> str:
        """Publish a document."""
        self._write("published", context.effect_id, {"title": title, "text": text})
        time.sleep(float(os.environ.get("PIPELINE_SLOW", "0")))
        return f"published: {title}"

    @tool(effect=ToolEffect.IDEMPOTENT)
    def notify(self, title: str, context: ToolContext) -> str:
        """Tell the readers of a document."""
        if (self._folder / "mail-is-away").exists():
            raise ConnectionError("mail.example is not there")
        self._write("mails", context.effect_id, {"title": title})
        return "told"

    def _write(self, kind: str, effect_id: str, what: dict[str, str]) -> None:
        place = self._folder / kind / f"{effect_id.replace(':', '_')}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(what), encoding="utf-8")
