"""Golden streams: sessions as an earlier version wrote them, and what they fold to.

A stream is a file `agent-v1-<name>.jsonl` of one stored record a line, byte for byte as the codec wrote it; what it
folds to stands beside it in `agent-v1-<name>.json`. Add files, never edit one: they stand for logs that are out there.
`folds/<format>.json` holds a digest of the states of each, for the format of snapshots of that name, and
`folds/runs.<version>.json` one of the rows of each in that version of the read models.
`python -m tests.golden.record` writes the streams that are not there yet.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import orjson

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.snapshot import SNAPSHOTS
from steptrail.domain.agent.state import AgentState
from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.store.core.blobs import no_blobs, read_record
from steptrail.infrastructure.store.core.codec import apart, encode
from steptrail.runtime.agent.agent_journal import agent_records

FOLDER = Path(__file__).parent
_LINE = re.compile(rb'\{"version":(\d+),"type":"([^"]+)","state":(\{.*\})\}')


def lines(records: Sequence[Recorded[Event]]) -> Iterator[bytes]:
    """Yield the records as lines; the stored bytes stand in them as they are."""
    for record in records:
        head = b'{"version":%d,"type":"%s","state":' % (record.version, record.event.TYPE.encode())
        yield head + encode(record.event, record.at) + b"}\n"


def stored_in(stream: Path) -> list[Recorded[Event]]:
    """Return the records of a stream of any kind."""
    records: list[Recorded[Event]] = []
    for line in stream.read_bytes().splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, line
        version, name, state = found.groups()
        records.append(read_record(no_blobs, stream.stem, int(version), name.decode(), *apart(state), None))
    return records


def read(stream: Path) -> Sequence[Recorded[AgentEvent]]:
    """Return the records of a session."""
    return agent_records(stored_in(stream))


def outcome(state: AgentState) -> JsonValue:
    """Return what a session came to, as far as a person or a dashboard would see a difference."""
    decided = state.last_continuation_outcome
    said: JsonValue = orjson.loads(
        orjson.dumps(
            {
                "status": state.status,
                "phase": state.phase,
                "stopReason": state.stop_reason,
                "output": state.output,
                "version": state.version,
                "segment": state.fold.segment,
                "executions": state.fold.executions,
                "info": state.info.to_dict(),
                "usage": full_form(state.total_usage),
                "metadata": dict(state.metadata),
                "failures": [state.consecutive_failures, state.total_failures],
                "openStep": state.open_step,
                "openCalls": [[call.name, call.status, call.effect_id] for call in state.tool_executions],
                "steps": [
                    {
                        "number": step.number,
                        "seconds": step.duration_seconds,
                        "text": step.text,
                        "calls": [[call.name, call.status, call.attempt] for call in step.tool_executions],
                        "errors": [[failure.error.type, failure.error.message] for failure in step.errors],
                    }
                    for step in state.steps
                ],
                "messages": [full_form(message) for message in state.messages],
                "decision": decided.to_dict() if decided else None,
            }
        )
    )
    return said


def folds() -> dict[str, str]:
    """Return a digest of every state on the way through every golden stream."""
    digests: dict[str, str] = {}
    for stream in sorted(FOLDER.glob("*.jsonl")):
        seen = sha256()
        state = initial(stream.stem)
        for record in read(stream):
            state = evolve_all(state, [record])
            counts, fold, *lines = SNAPSHOTS.dump(state)
            kept = orjson.loads(fold)
            if kept.get("execution") is not None:
                kept["execution"].get("hooks_ran", []).sort(key=str)  # a set
            seen.update(b"\n".join([counts, orjson.dumps(kept, option=orjson.OPT_SORT_KEYS), *lines]))
            # A field that is added shows here also where a snapshot leaves it out, because it holds its default.
            seen.update(orjson.dumps(full_form([*state.steps, *state.messages])))
        digests[stream.stem] = seen.hexdigest()
    return digests
