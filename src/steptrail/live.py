"""What can be seen of a run between its events, and a run as something to iterate over."""

from steptrail.domain.live import LiveUpdate, ReplyDelta, ToolProgress, UpdatesLost
from steptrail.runtime.following import Following
from steptrail.runtime.live import OnUpdate
from steptrail.runtime.run_stream import RunStream

__all__ = ["Following", "LiveUpdate", "OnUpdate", "ReplyDelta", "RunStream", "ToolProgress", "UpdatesLost"]
