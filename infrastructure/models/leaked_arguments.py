"""Arguments of a tool call that a server repeats as the text of its reply: they are kept out of the conversation.

Whether text is such a repetition is known when the reply is whole. So text that begins like an object is not shown
while it is being written, as long as a call may still follow.
"""

from collections.abc import Sequence

from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import CitationPart, Part, TextPart, ToolCallPart, text_of, tool_calls_of
from steptrail.infrastructure.models.opaque import beside_kind
from steptrail.infrastructure.models.wire import clean, loads


def without_leaked_arguments(content: str, calls: Sequence[ToolCallPart]) -> str:
    """Return the content, or an empty text when it only repeats the arguments of a requested call.

    It does so when the whole of it is JSON strictly equal to the arguments of any call: `1`, `1.0`, `"1"` and `true`
    differ, the order of keys does not matter. Blank text beside calls goes too. Without calls every content
    stays, JSON or not.
    """
    stripped = content.strip()
    if not calls:
        return content
    if not stripped:
        return ""
    try:
        value = loads(stripped)
    except (ValueError, RecursionError):
        return content
    return "" if any(_repeats(value, call) for call in calls) else content


def without_leaks(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts without their texts, and what stands beside them, when those only repeat a call's arguments."""
    if without_leaked_arguments(text_of(parts), tool_calls_of(parts)):
        return tuple(parts)
    return tuple(
        part for part in parts if not isinstance(part, TextPart | CitationPart) and beside_kind(part) != "text"
    )


class ShownText:
    """Decides which part of a reply's text is shown while it is being written.

    Text that begins with `{` is held back when calls `may_follow`, and so is half of a surrogate pair. `rest` returns
    at the end the text that is still to be shown, so that the pieces together are the text of the reply. Arguments that
    are not an object are not held back: a repetition of `42` is shown, and dropped from the reply.
    """

    def __init__(self, *, may_follow: bool) -> None:
        self._held, self._holds = "", may_follow
        self._shown: list[str] = []

    def more(self, text: str) -> str:
        """Return what can be shown now that `text` has come."""
        self._held += text
        if self._holds and self._held.lstrip()[:1] in ("", "{"):
            return ""
        self._holds = False
        end = len(self._held) - ("\ud800" <= self._held[-1:] <= "\udbff")
        piece, self._held = clean(self._held[:end]), self._held[end:]
        self._shown.append(piece)
        return piece

    def rest(self, whole: str) -> str:
        """Return what of the whole text has not been shown."""
        shown = "".join(self._shown)
        return whole[len(shown) :] if whole.startswith(shown) else ""


def _repeats(value: JsonValue, call: ToolCallPart) -> bool:
    if call.arguments is not None:
        return _same(value, call.arguments)
    try:
        return call.raw is not None and _same(value, loads(call.raw))
    except (ValueError, RecursionError):
        return False


def _same(left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(one, other) for one, other in zip(left, right, strict=True))
    return type(left) is type(right) and left == right
