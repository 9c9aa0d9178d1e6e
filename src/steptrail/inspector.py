"""Pages of all runs of a store, to mount in an ASGI application. It needs the extra `inspector`."""

from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.app import inspector
from steptrail.projections.masking import Mask, Show

__all__ = ["Access", "Mask", "Show", "inspector"]
