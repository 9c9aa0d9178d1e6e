"""Telling front ends what happens in runs: messages with ids, made of what is stored, and ways to deliver them."""

from steptrail.infrastructure.broadcast.adapter import AgentEventEnvelopeAdapter, CanBroadcastAgentEvents
from steptrail.infrastructure.broadcast.envelope_reader import EnvelopeReader
from steptrail.infrastructure.broadcast.in_process import InProcessTransport
from steptrail.infrastructure.broadcast.pusher import PusherTransport
from steptrail.infrastructure.broadcast.transport import BroadcastTransport, DeliveryCounts
from steptrail.interfaces.python.broadcaster import Broadcaster, BroadcastStats
from steptrail.projections.broadcast import (
    BroadcastConfig,
    BroadcastEnvelope,
    EnvelopeFold,
    EnvelopeForm,
    cloud_event,
    envelopes_of,
    place_of,
)

__all__ = [
    "AgentEventEnvelopeAdapter",
    "BroadcastConfig",
    "BroadcastEnvelope",
    "BroadcastStats",
    "BroadcastTransport",
    "Broadcaster",
    "CanBroadcastAgentEvents",
    "DeliveryCounts",
    "EnvelopeFold",
    "EnvelopeForm",
    "EnvelopeReader",
    "InProcessTransport",
    "PusherTransport",
    "cloud_event",
    "envelopes_of",
    "place_of",
]
