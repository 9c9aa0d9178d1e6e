"""Every exception that Steptrail raises, as one tree.

    SteptrailError
    ├── ConfigurationError        an agent, tool, hook or policy was put together wrongly
    │   ├── InvalidSetting        a field of a policy, a backoff or limits holds what it cannot
    │   ├── InvalidWorkflow       a workflow, or the text of one, has faults; each is listed
    │   └── MissingExtra          a feature needs an optional dependency
    ├── NotStorable               a value from outside has no JSON form that can be stored
    ├── CommandRejected           the session cannot take this command now
    │   └── ErasureRefused        it is open, or others need it
    ├── StoredContextInvalid      a stored context does not fit the type of the agent's context any more
    ├── StoredOutputInvalid       a stored answer does not fit the type of the agent's output any more
    ├── ExecutionFailed           `raise_for_stop()` on a result that did not complete
    ├── SessionNotFound           no session has this id
    │   └── SessionErased         it was erased
    ├── AmbiguousId               a shortened id fits several sessions
    ├── SessionBusy               another process owns the session
    │   └── ViewsBusy             another process rebuilds or prunes the read models
    ├── FollowerBusy              another process follows the log under this name
    ├── QueryRefused              the read models cannot be asked this, or not for so long
    ├── ProjectionStopped         a read model cannot go on: its code failed at an event
    ├── OwnershipLost             this process owned the session until somebody took it over
    ├── InvalidStateData          a dictionary is no serialized state
    ├── NotARecording             the file is no exported session that can be read
    ├── ChannelForbidden          somebody asked for messages that are not theirs
    ├── NotExported               a receiver did not take spans
    ├── StreamBroken              a model's reply broke off while it was being streamed
    ├── DeliveryError             a transport of messages
    │   ├── TransportUnavailable  did not take them now
    │   └── MessageRefused        will never take this one
    └── StoreError                the event store
        ├── FileUnreadable        the bytes of a file are not there, or are others
        ├── ArgumentsAltered      a call's stored arguments are not those that were approved or recorded
        ├── StoreUnavailable      cannot be opened or reached
        │   ├── StoreAway         does not answer now: later it may
        │   ├── StoreDamaged      its file or its tables are broken
        │   ├── NotAStore         the file is something else
        │   ├── StoreTooNew       written by a newer version of Steptrail
        │   ├── StoreTooOld       written by a version that was never released
        │   ├── StoreReadOnly     may be read, not written
        │   ├── StoreIsStandby    its log is not followed: that of its primary is
        │   ├── StoreSetBack      it has lost what this process had read
        │   ├── StoreLocked       another process holds the write lock for too long
        │   └── StoreFull         no space left
        ├── ConcurrencyConflict   somebody else appended first
        ├── AppendOutcomeUnknown  the write may or may not have happened
        └── CorruptRecord         a stored record cannot be understood
            ├── MissingRecord     it is not there, and later ones are
            └── RecordTooNew      a newer version of Steptrail wrote it

An error says who, what, where and what to do, and keeps the parts as attributes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steptrail.domain.instants import to_datetime

if TYPE_CHECKING:
    from steptrail.domain.flow.diagnostic import Diagnostic

_SHOWN = 100


_OTHER_HANDLES = {
    "agent": ", but the id is that of an agent's session: `trail.session(id)`",
    "flow": ", but the id is that of a workflow's run: `trail.flow(id)`",
}


def shown(text: str) -> str:
    """Return a text as an error repeats it: in quotes, and cut when it is long."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text):,} characters)"


class SteptrailError(Exception):
    """Base of everything Steptrail raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """Be pickled by what it says and keeps. `__init__` takes other things, of which it puts that together."""
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[SteptrailError], said: tuple[object, ...]) -> SteptrailError:
    error = kind.__new__(kind)
    error.args = said
    return error


class ConfigurationError(SteptrailError):
    """An agent, tool, hook, limit or policy was put together wrongly."""


class InvalidSetting(ConfigurationError, ValueError):
    """A field of a policy, a backoff or limits holds what it cannot. `field` names it, `why` says what is wrong."""

    def __init__(self, settings: str, field: str, why: str) -> None:
        super().__init__(f"{settings}: {field}: {why}")
        self.settings, self.field, self.why = settings, field, why

    @property
    def problem(self) -> str:
        """The field and what is wrong with it."""
        return f"{self.field}: {self.why}"


class InvalidWorkflow(ConfigurationError):
    """A workflow, or the text of one, has faults. `diagnostics` lists all of them, and warnings too."""

    def __init__(self, name: str, diagnostics: "Sequence[Diagnostic]") -> None:
        listed = "".join(f"\n  {each}" for each in diagnostics if each.severity == "error")
        super().__init__(f"workflow {shown(name)} cannot be built:{listed}")
        self.name, self.diagnostics = name, tuple(diagnostics)


class MissingExtra(ConfigurationError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, extra: str, package: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: install it with `pip install 'steptrail[{extra}]'`")
        self.feature, self.extra, self.package = feature, extra, package


class NotStorable(SteptrailError, TypeError):
    """A value from outside has no JSON form that can be stored and read again. `place` is where it stands."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"at {place}: {what} has no JSON form" if place else f"{what} has no JSON form")
        self.place, self.what = place, what


class CommandRejected(SteptrailError):
    """The session cannot take this command in the state it is in."""

    def __init__(self, command: str, session: str, why: str) -> None:
        super().__init__(f"cannot {command} session {shown(session)}: {why}")
        self.command, self.session, self.why = command, session, why


def stream_name(stream: str) -> str:
    """Return how people call a stream: a session of an agent by its id, anything else with its prefix."""
    return stream.removeprefix("agent:")


class ErasureRefused(CommandRejected):
    """The session is open, or others need it: nothing was erased. `needed_by` names those that are in the way."""

    def __init__(self, stream: str, why: str, needed_by: Sequence[str]) -> None:
        super().__init__("erase", stream_name(stream), why)
        self.needed_by = tuple(map(stream_name, needed_by))


class StoredContextInvalid(SteptrailError):
    """A stored context does not fit the type any more, because the type has changed. The error names the fields."""

    def __init__(self, type_name: str, why: str, *, is_open: bool = True) -> None:
        instead = "a `context` that is given to `resume`" if is_open else "another `context` that is given with this"
        super().__init__(f"the stored context does not fit {type_name}: {why}; {instead} replaces it")
        self.type_name = type_name


class StoredOutputInvalid(SteptrailError):
    """A stored answer does not fit the type any more, because the type has changed. `output_json` still has it."""

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(f"the stored answer does not fit {type_name}: {why}; `output_json` still has it")
        self.type_name = type_name


class ExecutionFailed(SteptrailError):
    """Raised by `raise_for_stop()` on a result that is not `completed` for the reason `completed`."""


class SessionNotFound(SteptrailError):
    """There is no session, or other run, of this name. A stream is called by its name: that of an agent by its id.

    `other` is a stream that there is, of another kind and with the same id.
    """

    def __init__(self, name: str, other: str | None = None) -> None:
        self.session = stream_name(name)
        self._kind = "run" if ":" in self.session else "session"
        instead = _OTHER_HANDLES.get(other.partition(":")[0], "") if other is not None else ""
        super().__init__(f"there is no {self._kind} {shown(self.session)} in this store{instead}")


class SessionErased(SessionNotFound):
    """The session was erased, and its id cannot be used again. `at` is in microseconds of UTC."""

    def __init__(self, stream: str, by: str, at: int, reason: str) -> None:
        super().__init__(stream)
        self.by, self.at, self.reason = by, at, reason
        when = f"{to_datetime(at):%Y-%m-%d at %H:%M} UTC"
        self.args = (f"{self._kind} {shown(self.session)} was erased by {by} on {when}: {reason}",)


class AmbiguousId(SteptrailError):
    """A shortened id fits several sessions, or a whole one fits streams of several kinds, with their prefixes then."""

    def __init__(self, prefix: str, candidates: tuple[str, ...]) -> None:
        some = ", ".join(candidates[:5]) + (", …" if len(candidates) > 5 else "")
        is_whole = all(each.endswith(f":{prefix}") for each in candidates)
        what_to_do = "say which of them" if is_whole else "give more of it"
        super().__init__(f"the id {shown(prefix)} fits {len(candidates)} sessions ({some}): {what_to_do}")
        self.prefix, self.candidates = prefix, candidates


class SessionBusy(SteptrailError):
    """Another owner is running this session; nothing was done."""

    def __init__(self, session: str, owner: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(
            f"session {shown(session)} is being run{by}: wait for it, stop it, "
            "or take it over with `resume(..., take_over=True)`"
        )
        self.session, self.owner = session, owner


class ViewsBusy(SessionBusy):
    """Another process rebuilds or prunes the read models; nothing was done."""

    def __init__(self, owner: str | None = None) -> None:
        super().__init__("projector:rebuild", owner)
        by = f" by {owner}" if owner else ""
        self.args = (f"the read models are being rebuilt or pruned{by}: try again when that is over",)


class FollowerBusy(SteptrailError):
    """Another process follows the log under this name; nothing was done."""

    def __init__(self, name: str, owner: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(
            f"follower {name!r} is at work already{by}: wait for its end with `wait=True`, or take another name"
        )
        self.name, self.owner = name, owner


class NotExported(SteptrailError):
    """A receiver did not take spans; to send them again is safe. The log of `opentelemetry` says why."""

    def __init__(self, spans: int) -> None:
        super().__init__(
            f"the receiver did not take {spans} spans: the log of `opentelemetry` says why; send them again"
        )
        self.spans = spans


class ProjectionStopped(SteptrailError):
    """A projection has failed at the event at `position` of the log, and its read model does not go on."""

    def __init__(self, name: str, position: int, why: str) -> None:
        self.name, self.position, self.why = name, position, why
        last = why.strip().rpartition("\n")[2]
        super().__init__(f"the projection {name!r} stopped at position {position}: {last}; correct it and rebuild")


class QueryRefused(SteptrailError):
    """A question to the read models is not one that only reads, is not understood, or takes too long."""


class OwnershipLost(SteptrailError):
    """The session was taken over from this process, which has stopped before its next effect."""

    def __init__(self, session: str, segment: int, current_segment: int) -> None:
        super().__init__(
            f"session {shown(session)} was taken over: this process ran segment {segment}, segment {current_segment} "
            "is running now. Nothing more was started here; what this process still learned is kept in the log"
        )
        self.session, self.segment, self.current_segment = session, segment, current_segment


class InvalidStateData(SteptrailError, ValueError):
    """A dictionary that should be a serialized state is none: `key` does not hold what was `expected` there."""

    def __init__(self, key: str, expected: str) -> None:
        super().__init__(f"this is no serialized state: {key!r} should hold {expected}")
        self.key, self.expected = key, expected


class ChannelForbidden(SteptrailError):
    """Somebody asked for the messages of a channel that they may not follow, or that there is none of."""

    def __init__(self, channel: str) -> None:
        super().__init__(f"channel {channel[:200]!r} may not be followed")
        self.channel = channel


class DeliveryError(SteptrailError):
    """A transport could not deliver messages to front ends."""


class TransportUnavailable(DeliveryError):
    """The transport did not take the messages now, and may later: not before `retry_after` seconds, if it says so."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MessageRefused(DeliveryError):
    """The transport will not take one of the messages, however often it is asked. `reason` is a word or two."""

    def __init__(self, message: str, *, reason: str = "refused") -> None:
        super().__init__(message)
        self.reason = reason


class StreamBroken(SteptrailError, ConnectionError):
    """A model's reply broke off while it was being streamed."""


class NotARecording(SteptrailError):
    """The file is no exported session, or one that this version cannot read or replay."""


class StoreError(SteptrailError):
    """The event store could not do what was asked."""


class FileUnreadable(StoreError):
    """The bytes of a file that events name cannot be read."""

    def __init__(self, digest: str, why: str) -> None:
        super().__init__(f"the file {digest} cannot be read: {why}")
        self.digest = digest


class StoreUnavailable(StoreError):
    """The store cannot be opened or reached."""


class StoreAway(StoreUnavailable):
    """The store does not answer now, and may later.

    Its server is down or busy, its disk cannot be reached, or this process has as many files open as it may.
    """


class StoreDamaged(StoreUnavailable):
    """The file or the tables of the store are broken: not one session, but what all of them stand in."""


class NotAStore(StoreUnavailable):
    """The file or database holds something that is not a Steptrail store; it was left as it is."""


class StoreTooNew(StoreUnavailable):
    """The store was written by a newer version of Steptrail; it was left as it is."""


class StoreTooOld(StoreUnavailable):
    """The store was written in an older format, which no version converts; it was left as it is."""

    def __init__(self, store: str, found: int, oldest: int) -> None:
        super().__init__(
            f"the store {store} has format {found} of a version before the first release; this Steptrail reads from "
            f"format {oldest} on, and nothing converts it: keep it with the version that wrote it and begin a new one"
        )
        self.found, self.oldest = found, oldest


class StoreReadOnly(StoreUnavailable):
    """The store may be read and not written."""


class StoreSetBack(StoreUnavailable):
    """The store has lost what this process had read of it: an older backup, or a server that lagged, took its place.

    `place` is how far this process had read.
    """

    def __init__(self, what: str, place: int) -> None:
        super().__init__(
            f"the store no longer holds {what} as it was read here, up to {place}: a backup was restored, or a server "
            "took over that lacks the last commits; nothing was written, begin again from what is stored"
        )
        self.place = place


class StoreIsStandby(StoreUnavailable):
    """The store is a copy that follows a primary: it is read, and its log is not followed.

    `newest` is the position of the newest event that has come to it. Events before that may still be to come.
    """

    def __init__(self, store: str, newest: int) -> None:
        super().__init__(
            f"the store {store} is a standby, which cannot tell what its primary still writes: follow that"
        )
        self.newest = newest


class StoreLocked(StoreUnavailable):
    """Another process held the write lock for longer than the busy timeout; nothing was written."""


class StoreFull(StoreUnavailable):
    """There is no space left where the store lies; nothing was written."""


PASSING = (StoreAway, StoreFull, StoreLocked)
"""The errors of a store that may do later what it refuses now. A process that has time waits."""


class ConcurrencyConflict(StoreError):
    """Somebody else appended to the stream first; nothing was written."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"stream {stream!r} is at version {actual}, not {expected}: somebody else appended first")
        self.stream, self.expected, self.actual = stream, expected, actual


class AppendOutcomeUnknown(StoreError):
    """The connection failed in the middle of a write that may or may not have happened."""


class ArgumentsAltered(StoreError):
    """The stored arguments of a call are not those that were approved or recorded before. The call was not started."""

    def __init__(self, session: str, tool: str, effect_id: str, since: str) -> None:
        super().__init__(
            f"session {session!r}: the arguments of {tool!r} ({effect_id}) have changed in the store since {since}, so "
            f"nothing was started. `steptrail doctor` looks for the damage, `steptrail show {session}` shows the call"
        )
        self.session, self.tool, self.effect_id = session, tool, effect_id


class CorruptRecord(StoreError):
    """A stored record cannot be understood. Other sessions are not affected.

    `position` is its place in the log, where it was met there: reading goes on after that.
    """

    position: int | None = None

    def __init__(self, stream: str, version: int, type_name: str, why: str) -> None:
        super().__init__(f"record {version} of stream {stream!r} (type {type_name!r}) cannot be read: {why}")
        self.stream, self.version, self.type_name, self.why = stream, version, type_name, why


class MissingRecord(CorruptRecord):
    """A record of a session is not there although the later one `found` is."""

    def __init__(self, stream: str, version: int, found: int) -> None:
        super().__init__(stream, version, "unknown", f"it is missing: event {found} stands in its place")
        self.found = found


class RecordTooNew(CorruptRecord):
    """A newer version of Steptrail wrote the record, or a module that is not imported here. It is not damaged."""
