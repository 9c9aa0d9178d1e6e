"""AG-UI: an endpoint for agent front ends (extra `agui`), and the fold behind it for other ways to serve them."""

from steptrail.interfaces.http.agui.config import AguiCaller, AguiConfig
from steptrail.interfaces.http.agui.endpoint import AguiApp, agui_app
from steptrail.interfaces.http.agui.fold import AguiFold

__all__ = ["AguiApp", "AguiCaller", "AguiConfig", "AguiFold", "agui_app"]
