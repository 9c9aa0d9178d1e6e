"""How people call a stream: a session of an agent by its id, anything else with its prefix, such as `flow:order-7`."""

from steptrail.domain.agent.ids import STREAM_PREFIX, checked_session_id
from steptrail.domain.errors import AmbiguousId, SessionNotFound, stream_name
from steptrail.domain.kernel.by_prefix import id_of, prefix_of
from steptrail.domain.kernel.given import a_text
from steptrail.domain.kernel.names import is_name
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore


def stream_named(text: str) -> str:
    """Return the id of the stream that is called so, with its prefix, whether it is there or not.

    Raises `ConfigurationError` for what cannot be the name of one.
    """
    a_text(text, "the name of a run")
    prefix = prefix_of(text) if prefix_of(text) in KINDS else STREAM_PREFIX
    return prefix + checked_session_id(text.removeprefix(prefix))


async def stream_beginning(store: EventStore, text: str, *, prefix: str | None = None) -> str:
    """Return the stream whose name is, or uniquely begins with, `text`, of whatever kind.

    With a `prefix` only streams of that kind are looked at. Raises `SessionNotFound` or `AmbiguousId`.
    """
    said = prefix_of(a_text(text, "the name of a run"))
    if said in KINDS and prefix in {None, said}:
        prefix, text = said, id_of(text)
    if text and not is_name(text):
        raise SessionNotFound(text)  # no id begins like that, and not every store can be asked for it
    found = [stream for each in (KINDS if prefix is None else (prefix,)) for stream in await store.streams(each + text)]
    whole = [stream for stream in found if id_of(stream) == text]
    if len(whole) > 1:
        raise AmbiguousId(text, tuple(whole))
    if len(whole or found) != 1:
        raise AmbiguousId(text, tuple(map(stream_name, found))) if found else SessionNotFound(text)
    return (whole or found)[0]
