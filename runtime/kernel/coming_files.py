"""The bytes of files that came with events of a journal, until the commit of these events has stored them."""

from collections.abc import Sequence
from typing import TypeVar

from steptrail.domain.files import fields_with_files, files_in, names_files, reference_to, with_files
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Commit, CommitHead
from steptrail.domain.shared.summary import RunSummary

E = TypeVar("E", bound=Event)


class ComingFiles:
    """Holds the bytes of one journal. Events that are dropped, and decided anew, bring theirs again."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}

    def taken_from(self, event: E) -> E:
        """Keep the bytes that an event came with, and return it as it is stored: with references to them."""
        if not fields_with_files(type(event)) or not names_files(event):
            return event
        came = {part.digest: part.data for _, part in files_in(event) if part.data is not None}
        self._bytes.update(came)
        return with_files(event, reference_to) if came else event

    def commit(self, head: CommitHead, events: Sequence[tuple[int, E]], row: RunSummary | None) -> Commit:
        """Return a commit of events with the files that they name, as far as these came here."""
        if not self._bytes:
            return Commit(head, tuple(events), row)
        named = {part.digest for _, event in events for _, part in files_in(event)}
        return Commit(head, tuple(events), row, {each: self._bytes[each] for each in named if each in self._bytes})

    def are_stored(self) -> None:
        """Forget the bytes: the commit that named them is stored."""
        self._bytes.clear()
