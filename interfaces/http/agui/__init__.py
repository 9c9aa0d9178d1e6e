"""AG-UI: a run as the events that agent front ends speak, and the endpoint that such a front end posts to.

The protocol's package is imported when a fold or an endpoint is made, never by these modules.
"""

from steptrail.interfaces.http.agui.config import AguiCaller, AguiConfig
from steptrail.interfaces.http.agui.endpoint import AguiApp, agui_app
from steptrail.interfaces.http.agui.fold import AguiFold

__all__ = ["AguiApp", "AguiCaller", "AguiConfig", "AguiFold", "agui_app"]
