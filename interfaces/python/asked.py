"""The arguments with which a trail is asked to run something, but who is to answer and who is told of it."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from steptrail.domain.agent.commands import Start
from steptrail.domain.agent.ids import SessionId, checked_session_id
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.given import a_context, a_history, a_message, for_one_run
from steptrail.runtime.agent.tool_port import RunnableTool
from steptrail.runtime.kernel.ids import session_or_unnamed

if TYPE_CHECKING:
    from steptrail.domain.flow.envelope import Artifact
    from steptrail.domain.flow.options import RunOptions

_AT_ONCE = 1_000
"""A history of more messages is checked and copied beside the event loop."""


class Asked(NamedTuple):
    """The arguments of `Steptrail.run`, but the agent or workflow and who is told of what happens."""

    input: Any
    session: str | None
    by: str
    key: str | None
    context: Any
    metadata: dict[str, JsonValue] | None
    parent: ParentRef | None
    new: bool
    history: Sequence[Message]
    options: "RunOptions | None"
    vars: Mapping[str, object] | None
    messages: Sequence[Message]
    artifacts: "Sequence[Artifact]"
    external_tools: Sequence[RunnableTool]
    cause: str | None = None

    def session_id(self) -> SessionId:
        """Return the id that was given, that of a session for the key, or a new one."""
        return checked_session_id(session_or_unnamed(self.session, self.key))

    async def of_agent(self, agent: AnyAgent, worker: str | None) -> Start:
        """Return the command to an agent. Raises `ConfigurationError` for what does not fit or is for workflows."""
        said = a_message(self.input)
        for name in ("options", "vars", "messages", "artifacts"):
            if getattr(self, name):
                raise ConfigurationError(f"an agent is run without `{name}`: that is for workflows")
        history = a_history(self.history)
        external = for_one_run(agent, self.external_tools)
        make = partial(
            Start,
            input=said,
            agent=agent.snapshot_beside(external),
            worker=worker,
            by=self.by,
            key=self.key,
            metadata=self.metadata or {},
            parent=self.parent,
            context=a_context(agent, self.context),
            history=history,
            new=self.new,
            external_tools=external,
            cause=self.cause,
        )
        return make() if len(history) <= _AT_ONCE else await asyncio.to_thread(make)
