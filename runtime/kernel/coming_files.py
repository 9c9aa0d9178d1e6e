"""The bytes of files that came with events of a journal, until the commit of these events has stored them."""

from collections.abc import Sequence
from typing import TypeVar

from steptrail.domain.files import files_in, names_files, reference_to, with_files
from steptrail.domain.kernel.event import Event

E = TypeVar("E", bound=Event)


class ComingFiles(dict[str, bytes]):
    """Holds bytes of one journal by their SHA-256. Events that are dropped, and decided anew, bring theirs again."""

    def taken_from(self, event: E) -> E:
        """Keep the bytes that an event came with, and return it as it is stored: with references to them."""
        if not names_files(event):
            return event
        came = {part.digest: part.data for _, part in files_in(event) if part.data is not None}
        self.update(came)
        return with_files(event, reference_to) if came else event

    def named_by(self, events: Sequence[tuple[int, Event]]) -> dict[str, bytes]:
        """Return those that events name, as far as they came here."""
        named = {part.digest for _, event in events for _, part in files_in(event)}
        return {each: self[each] for each in named if each in self}
