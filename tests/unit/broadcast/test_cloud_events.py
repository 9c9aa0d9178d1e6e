"""A message as the CloudEvents library reads it."""

import orjson
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, EnvelopeFold, EnvelopeForm, cloud_event
from tests.unit.broadcast.samples import messages
from tests.unit.broadcast.test_envelopes import delta


def read(envelope: BroadcastEnvelope) -> CloudEvent:
    """Return the event as the library reads it, which checks it against the specification."""
    event = JSONFormat().read(CloudEvent, orjson.dumps(cloud_event(envelope)))
    assert isinstance(event, CloudEvent)
    return event


@pytest.mark.parametrize("form", ["epic", "reverb"])
async def test_every_message_is_an_event_with_an_id_of_its_own(form: EnvelopeForm) -> None:
    made = await messages(BroadcastConfig.debug(form=form))
    events = [read(each) for each in made]
    assert [event.get_id() for event in events] == [each.id for each in made]
    for event, each in zip(events, made, strict=True):
        assert (event.get_source(), event.get_specversion()) == ("/runs/s", "1.0")
        assert event.get_type() == f"dev.steptrail.{each.type}.v1"
        time = event.get_time()
        assert time is not None
        assert time.timestamp() == pytest.approx(each.at / 1e6, abs=0.001)
        assert (event.get_extension("sequence"), event.get_extension("partitionkey")) == (each.id, "s")
        assert event.get_data() == each.body


async def test_the_subject_is_a_call_or_a_step() -> None:
    subjects = {each.type: read(each).get_subject() for each in await messages()}
    assert subjects["agent.step.started"] == "2"
    assert str(subjects["agent.tool.started"]).startswith("call-")
    assert subjects["agent.status"] is None


def test_pieces_of_a_reply_have_ids_of_their_own() -> None:
    fold = EnvelopeFold(BroadcastConfig())
    pieces = [made for text in "ab" for made in fold.delta(delta(text), at=1_800_000_000_000_000)]
    assert [read(each).get_id() for each in pieces] == ["0.0-0", "0.0-1"]
