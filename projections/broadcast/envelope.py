"""An envelope: one message for front ends, with an id that means the same to everybody, and a body ready to be sent.

Each envelope holds the id of the one before, so a front end that has lost one sees the gap.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from steptrail.domain.compact_json import compact_json
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_text
from steptrail.projections.broadcast.config import EnvelopeForm
from steptrail.projections.broadcast_text import timestamp_text

CHANNEL_PREFIX = "agent."

StreamKind = Literal["agent", "flow"]
"""The kind of the stream that a message is about: the session of an agent, or a run of a workflow."""

Place = tuple[int, int]
"""The parts of an id: the version of the stored event, and which of its messages this is. Places compare in order."""

BEFORE_ALL: Final = "0.0"
"""The id before that of every message."""

_ID = re.compile(r"(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastEnvelope:
    """One message. `body` is what is sent; the rest is for who sends it.

    `id` is `<version>.<n>`: the version of the stored event in its session, and which of the messages that event can
    make this is. It is the same under every configuration, in every process, and in the body as `sequence`; there
    `previous` is the id of the message before this one on the channel, and null in the first. An ephemeral message is
    not stored anywhere: it has the id of the last one that is, twice, and may get lost. `at` is in microseconds of UTC.
    `session_id` is the id of the session, or with the `kind` `flow` that of the run of a workflow.
    """

    id: str
    channel: str
    body: dict[str, JsonValue]
    version: int
    is_ephemeral: bool
    type: str
    session_id: str
    at: int
    kind: StreamKind = "agent"
    _json: list[bytes] = field(default_factory=list[bytes], init=False, repr=False, compare=False)

    def to_json(self) -> bytes:
        """Return the body as compact JSON in UTF-8. It is made once, however many it is sent to."""
        if not self._json:
            self._json.append(compact_json(self.body))
        return self._json[0]

    def by_reference(self) -> "BroadcastEnvelope":
        """Return it with a body that only says where the message is, for a transport that it is too large for."""
        return self._instead(
            {"reference": {f"{self.kind}_id": self.session_id, "version": self.version, "id": self.id}}
        )

    def omitted(self, reason: str) -> "BroadcastEnvelope":
        """Return it with a body that only says that the message could not be delivered, and why in a word or two."""
        return self._instead({"omitted": {"type": self.type, "reason": reason}})

    def _instead(self, said: dict[str, JsonValue]) -> "BroadcastEnvelope":
        return replace(self, body={**said, **{key: self.body[key] for key in ("sequence", "previous")}})


def enveloped(
    form: EnvelopeForm,
    *,
    id: str,  # noqa: A002 - the public name
    previous: str | None,
    type: str,  # noqa: A002 - the public name
    session_id: str,
    execution_id: str,
    at: int,
    payload: dict[str, JsonValue],
    kind: StreamKind = "agent",
    is_ephemeral: bool = False,
) -> BroadcastEnvelope:
    """Return a payload as a message of that form."""
    when, whose_id = timestamp_text(at), f"{kind}_id"
    said: dict[str, JsonValue]
    if form == "epic":
        said = {"event": type, "timestamp": when, whose_id: session_id, "data": payload}
    else:
        whose: dict[str, JsonValue] = {"session_id": session_id, "execution_id": execution_id}
        said = {"type": type, **whose, "timestamp": when, "payload": payload, whose_id: session_id}
    return BroadcastEnvelope(
        id=id,
        channel=f"{kind}.{session_id}",
        body={**said, "sequence": id, "previous": previous},
        version=place_of(id)[0],
        is_ephemeral=is_ephemeral,
        type=type,
        session_id=session_id,
        at=at,
        kind=kind,
    )


def id_of(place: Place) -> str:
    """Return the id of the message at a place."""
    return f"{place[0]}.{place[1]}"


def place_of(id: str) -> Place:  # noqa: A002 - the public name
    """Return what an id says, also one that a client sent. Raises `ConfigurationError` for anything else."""
    if (read := _ID.fullmatch(a_text(id, "the id of a message"))) is None:
        raise ConfigurationError(f"{id[:40]!r} is no id of a message: it looks like '12.2'")
    return int(read[1]), int(read[2])
