"""The failures of a Model Context Protocol server, as failures of the call that met them."""

from steptrail.domain.errors import SteptrailError


class McpCallFailed(SteptrailError):
    """The server answered that the call failed, or refused it. The message is the server's."""


class McpServerUnavailable(SteptrailError, ConnectionError):
    """The server cannot be started or reached, ended in the middle of a call, or gave no answer that can be read.

    `may_have_run` says that a call had been sent to it, and that nobody knows what became of it.
    """

    def __init__(self, server: str, why: str, *, may_have_run: bool = False) -> None:
        unknown = "; whether the call took effect is unknown" if may_have_run else ""
        super().__init__(f"the MCP server {server!r} {why}{unknown}")
        self.server, self.may_have_run = server, may_have_run
