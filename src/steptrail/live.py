"""What can be seen of a run between its events, and a run as something to iterate over."""

from steptrail.domain.live import (
    LiveUpdate,
    NodeDelta,
    NodeProgress,
    OutputPartial,
    ReplyDelta,
    ToolProgress,
    UpdatesLost,
)
from steptrail.runtime.kernel.following import Followed, Following
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.run_stream import RunStream

__all__ = [
    "Followed",
    "Following",
    "LiveUpdate",
    "NodeDelta",
    "NodeProgress",
    "OnUpdate",
    "OutputPartial",
    "ReplyDelta",
    "RunStream",
    "ToolProgress",
    "UpdatesLost",
]
