"""A message as a CloudEvents 1.0 event, for buses and functions that expect one."""

from steptrail.domain.json_value import JsonValue
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast_text import timestamp_text

_TYPE_PREFIX, _TYPE_VERSION = "dev.steptrail.", ".v1"


def cloud_event(envelope: BroadcastEnvelope) -> dict[str, JsonValue]:
    """Return the event in structured form: its body is the `data`.

    `source` is `/runs/<session>`, or `/flows/<run>` of a workflow, and together with `id` it names the event for ever.
    `subject` is the id of a tool call, or else the number of a step or a node of a workflow, or missing. The extensions
    are `sequence`, the id of the message in its session, and `partitionkey`, the session: a bus that keeps the order of
    one keeps that of the messages.
    """
    payload = envelope.body.get("data", envelope.body.get("payload"))
    said = payload if isinstance(payload, dict) else {}
    # A piece of a reply shares the id of the message before it, and its number tells it from the others.
    id_ = f"{envelope.id}-{said.get('chunk_index')}" if envelope.is_ephemeral else envelope.id
    event: dict[str, JsonValue] = {
        "specversion": "1.0",
        "id": id_,
        "source": f"/{'runs' if envelope.kind == 'agent' else 'flows'}/{envelope.session_id}",
        "type": f"{_TYPE_PREFIX}{envelope.type}{_TYPE_VERSION}",
        "time": timestamp_text(envelope.at),
        "datacontenttype": "application/json",
        "sequence": envelope.id,
        "partitionkey": envelope.session_id,
        "data": envelope.body,
    }
    subject = said.get("tool_call_id") or said.get("step_number") or said.get("node")
    return event if subject is None else {**event, "subject": str(subject)}
