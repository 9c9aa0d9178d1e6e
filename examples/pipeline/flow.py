"""The pipeline: read a document, summarise it, put it into the index, ask a person, publish it, tell the readers.

The command line runs it; see the README. How much each step matters is said by its settings:

- the search index is away at times, so `index` is tried up to five times, and fails the run if all tries do;
- publishing is critical: it fails the run whatever else is tolerated;
- the message to the readers may fail: that is recorded, and the run goes on.

`PIPELINE_FOLDER` is where it keeps what it has published, and `PIPELINE_MODEL` the model: `local` is one inside the
process, a name is that of a provider, and without it a script speaks.
"""

import os
from pathlib import Path

from pydantic import JsonValue

from examples.common import choose_model
from examples.pipeline.outside import Outside
from steptrail.models import LocalModel, ModelDriver
from steptrail.workflow import BuiltWorkflow, Envelope, OnError, RetryPolicy, Workflow

__all__ = ["flow", "pipeline"]

WEEK = 7 * 24 * 3600.0


def parse(envelope: Envelope) -> dict[str, str]:
    """Return the title of a document, which is its first line, and its text. Raises `ValueError` without either."""
    given: JsonValue = envelope.input
    document = given.get("document", "") if isinstance(given, dict) else ""
    title, _, text = str(document).partition("\n")
    if not title.strip() or not text.strip():
        raise ValueError("a document has a title on its first line, and a text below it")
    return {"title": title.strip(), "text": text.strip()}


def pipeline(outside: Outside, model: ModelDriver) -> BuiltWorkflow:
    """Return the workflow that publishes to `outside`."""
    return (
        Workflow("publish a document", result="receipt")
        .function("parse", parse, output="doc")
        .llm("summary", model, prompt="Summarise in one sentence:\n{{ vars.doc.text }}", output="summary")
        .tool(
            "index",
            outside.index,
            args={"title": "{{ vars.doc.title }}", "summary": "{{ vars.summary }}"},
            retry=RetryPolicy(max_attempts=5, backoff=0.05),
        )
        .human("review", prompt="Publish {{ vars.doc.title }}?", show=("summary",), expires=WEEK, output="review")
        .gate("approved", when="vars.review_approved", message="the document was not approved")
        .tool(
            "release",
            outside.release,
            args={"title": "{{ vars.doc.title }}", "text": "{{ vars.doc.text }}"},
            output="receipt",
            critical=True,
        )
        .tool(
            "notify",
            outside.notify,
            args={"title": "{{ vars.doc.title }}"},
            retry=RetryPolicy(max_attempts=2, backoff=0.05),
            on_error=OnError.CONTINUE,
        )
        .chain("parse", "summary", "index", "review", "approved", "release", "notify")
        .build()
    )


def _model(name: str | None) -> ModelDriver:
    return LocalModel() if name == "local" else choose_model(name, ["A text about tea."])


flow = pipeline(Outside(Path(os.environ.get("PIPELINE_FOLDER", "pipeline"))), _model(os.environ.get("PIPELINE_MODEL")))
