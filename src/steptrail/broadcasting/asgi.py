"""Messages about sessions over HTTP, for any ASGI application. It needs the extra `web`."""

from steptrail.infrastructure.broadcast.asgi import Authorize, event_stream

__all__ = ["Authorize", "event_stream"]
