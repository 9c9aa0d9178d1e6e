"""What can be seen of a run between its events, and a run as something to iterate over."""

from steptrail.domain.live import LiveUpdate, OutputPartial, ReplyDelta, ToolProgress, UpdatesLost
from steptrail.runtime.agent.run_stream import RunStream
from steptrail.runtime.kernel.following import Followed, Following
from steptrail.runtime.kernel.live_updates import OnUpdate

__all__ = [
    "Followed",
    "Following",
    "LiveUpdate",
    "OnUpdate",
    "OutputPartial",
    "ReplyDelta",
    "RunStream",
    "ToolProgress",
    "UpdatesLost",
]
