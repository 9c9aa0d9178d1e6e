"""The messages that front ends get of a run, folded from its lifecycle events."""

from steptrail.projections.broadcast.cloud_event import cloud_event
from steptrail.projections.broadcast.config import BroadcastConfig, EnvelopeForm
from steptrail.projections.broadcast.envelope import BEFORE_ALL, BroadcastEnvelope, Place, id_of, place_of
from steptrail.projections.broadcast.fold import EnvelopeFold, Moment, envelopes_of

__all__ = [
    "BEFORE_ALL",
    "BroadcastConfig",
    "BroadcastEnvelope",
    "EnvelopeFold",
    "EnvelopeForm",
    "Moment",
    "Place",
    "cloud_event",
    "envelopes_of",
    "id_of",
    "place_of",
]
