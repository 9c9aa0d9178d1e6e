"""Messages about sessions over HTTP, for any ASGI application. It needs the extra `web`."""

from steptrail.interfaces.http.event_streams import Authorize, event_stream

__all__ = ["Authorize", "event_stream"]
