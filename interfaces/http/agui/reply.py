"""The reply that a model is writing, as a front end sees it: begun, continued, and ended by what was stored of it.

Pieces are shown as they come. When the whole is stored, only what has not been shown yet follows; a reply that broke
off is closed, and its caller takes it back.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from steptrail.domain.live import DeltaKind

if TYPE_CHECKING:
    from ag_ui.core import Event


class ReplyShown:
    """The text of the reply `message_id` that has been shown. With `reasoning` also the thoughts before it.

    A client keeps thoughts whatever becomes of the reply, and adds to what it has under an id. So those of each try
    have ids of their own, and of what the client has `held` since an earlier look only the rest is told.
    """

    def __init__(
        self, message_id: str, *, reasoning: bool, attempt: int = 1, held: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.message_id, self._reasoning = message_id, reasoning
        self._attempt, self._held, self._rest_held = attempt, held, ""
        # As pieces: a text that each of them is added to would be copied for each of them.
        self._text, self._thought, self._thoughts = list[str](), list[str](), 0
        self._is_thinking, self._has_hole = False, False

    @property
    def has_text(self) -> bool:
        """Tell whether a text message has been begun."""
        return bool(self._text)

    def lost(self) -> None:
        """Show no more of it before the whole is stored: pieces are missing."""
        self._has_hole = True

    def written(self, kind: DeltaKind, text: str) -> "list[Event]":
        """Show a piece."""
        from ag_ui.core import ReasoningMessageContentEvent, TextMessageContentEvent, TextMessageStartEvent

        if not text or self._has_hole or (kind == "reasoning" and not self._reasoning):
            return []
        if kind == "reasoning":
            begun = self._thinking()
            self._thought.append(text)
            held, self._rest_held = self._rest_held, self._rest_held[len(text) :]
            new = text[len(held) :]
            return [*begun, *([ReasoningMessageContentEvent(message_id=self._thought_id, delta=new)] if new else [])]
        events = self._thought_out()
        if not self._text:
            events.append(TextMessageStartEvent(message_id=self.message_id, role="assistant"))
        self._text.append(text)
        return [*events, TextMessageContentEvent(message_id=self.message_id, delta=text)]

    def stored(self, text: str, thought: str) -> "list[Event] | None":
        """Show what is missing of the stored reply and end it; None when something else has been shown."""
        shown, shown_thought = "".join(self._text), "".join(self._thought)
        if not text.startswith(shown):
            return None
        self._has_hole = False
        # Thoughts stand before the text: of those that were shown in part, the rest would come too late behind it.
        in_time = not self._text or not self._thought
        missing = thought[len(shown_thought) :] if in_time and thought.startswith(shown_thought) else ""
        events = self.written("reasoning", missing)
        return [*events, *self.written("text", text[len(shown) :]), *self.closed()]

    def closed(self) -> "list[Event]":
        """End whatever is open of it."""
        from ag_ui.core import TextMessageEndEvent

        events = self._thought_out()
        if self._text:
            events.append(TextMessageEndEvent(message_id=self.message_id))
        return events

    @property
    def _thought_id(self) -> str:
        return f"{self.message_id}:reasoning:{self._attempt}:{self._thoughts}"

    def _thinking(self) -> "list[Event]":
        from ag_ui.core import ReasoningMessageStartEvent, ReasoningStartEvent

        if self._is_thinking:
            return []
        self._thoughts, self._is_thinking = self._thoughts + 1, True
        self._rest_held = self._held.get(self._thought_id, "")
        return [
            ReasoningStartEvent(message_id=self._thought_id),
            ReasoningMessageStartEvent(message_id=self._thought_id),
        ]

    def _thought_out(self) -> "list[Event]":
        from ag_ui.core import ReasoningEndEvent, ReasoningMessageEndEvent

        if not self._is_thinking:
            return []
        self._is_thinking = False
        return [
            ReasoningMessageEndEvent(message_id=self._thought_id),
            ReasoningEndEvent(message_id=self._thought_id),
        ]
