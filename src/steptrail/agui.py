"""AG-UI: an endpoint for agent front ends (extra `agui`), and the fold behind it for other ways to serve them."""

from steptrail.interfaces.http.agui import AguiApp, AguiCaller, AguiConfig, AguiFold, agui_app

__all__ = ["AguiApp", "AguiCaller", "AguiConfig", "AguiFold", "agui_app"]
