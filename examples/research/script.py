"""What the scripted models say about any topic and any files. Real models need none of this."""

import json

from examples.common import tool_results
from examples.research.citations import Citation, cited
from steptrail.models import ModelReply, ModelRequest
from steptrail.testing import Reply, call, calls

__all__ = ["lead_script", "reader_script"]


def lead_script(topic: str) -> list[Reply]:
    """Search, send a reader to the three files that say most, note what they bring, report with a slip, mend it."""

    def send_readers(request: ModelRequest) -> ModelReply:
        found: list[str] = [hit["file"] for hit in json.loads(tool_results(request, "search")[0])]
        files = sorted(set(found), key=lambda file: (-found.count(file), file))[:3]
        return calls(*[("reader", {"prompt": f"Look in {file} for: {topic}"}) for file in files])

    def take_notes(request: ModelRequest) -> ModelReply:
        return calls(*[("take_note", each._asdict()) for each in _found(request, "reader")])

    def report_with_a_slip(request: ModelRequest) -> str:
        first, *rest = _found(request, "take_note")
        return _report(topic, [first._replace(line=first.line + 1), *rest])

    def report(request: ModelRequest) -> str:
        return _report(topic, _found(request, "take_note"))

    search = calls(("list_files", {}), ("search", {"text": topic}))
    return [search, send_readers, take_notes, report_with_a_slip, report]


def reader_script(topic: str) -> list[Reply]:
    """Find the topic in the file that the prompt names, read on from there, and quote the first line that has it."""

    def search(request: ModelRequest) -> ModelReply:
        return call("search", text=topic, file=_file(request))

    def read_on(request: ModelRequest) -> ModelReply:
        first = json.loads(tool_results(request, "search")[0])[0]["line"]
        return call("read", file=_file(request), first=first, count=10)

    def quote(request: ModelRequest) -> str:
        number, _, text = tool_results(request, "read")[0].splitlines()[0].partition(": ")
        # A quote ends at the first quotation mark, so the longest piece without one is taken.
        words = max(text.split('"'), key=len).strip()
        return f"It says {Citation(words, _file(request), int(number))}."

    return [search, read_on, quote]


def _file(request: ModelRequest) -> str:
    prompt = next(message.text for message in request.messages if message.is_user())
    return prompt.removeprefix("Look in ").partition(" for: ")[0]


def _found(request: ModelRequest, tool: str) -> list[Citation]:
    return cited("\n".join(tool_results(request, tool)))


def _report(topic: str, found: list[Citation]) -> str:
    return "\n".join([f"On {topic!r} the files say:", *[f"- {each}" for each in found]])
