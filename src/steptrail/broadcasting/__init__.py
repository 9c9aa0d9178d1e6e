"""Telling front ends what happens in runs: messages with ids, made of what is stored."""

from steptrail.infrastructure.broadcast.envelope_follower import EnvelopeFollower
from steptrail.projections.broadcast import (
    BroadcastConfig,
    BroadcastStatus,
    Envelope,
    EnvelopeFold,
    EnvelopeForm,
    envelopes_of,
    place_of,
)

__all__ = [
    "BroadcastConfig",
    "BroadcastStatus",
    "Envelope",
    "EnvelopeFold",
    "EnvelopeFollower",
    "EnvelopeForm",
    "envelopes_of",
    "place_of",
]
