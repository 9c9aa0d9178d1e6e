"""Telling front ends what happens in runs: messages with ids, made of what is stored, and ways to deliver them."""

from steptrail.infrastructure.broadcast.adapter import AgentEventEnvelopeAdapter, CanBroadcastAgentEvents
from steptrail.infrastructure.broadcast.envelope_reader import EnvelopeReader
from steptrail.infrastructure.broadcast.in_process import InProcessTransport
from steptrail.infrastructure.broadcast.pusher import PusherTransport
from steptrail.infrastructure.broadcast.transport import BroadcastTransport, DeliveryCounts
from steptrail.interfaces.python.broadcaster import Broadcaster, BroadcastStats
from steptrail.projections.broadcast.cloud_event import cloud_event
from steptrail.projections.broadcast.config import BroadcastConfig, EnvelopeForm
from steptrail.projections.broadcast.envelope import BroadcastEnvelope, place_of
from steptrail.projections.broadcast.fold import EnvelopeFold, envelopes_of

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
