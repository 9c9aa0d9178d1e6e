"""The request of one model call, built from the state: the agent's prompt and examples, the conversation, the tools.

Only the digest is stored, and it is carried on from call to call: hashing touches each message once.
"""

import hashlib
from collections.abc import Sequence
from typing import Protocol

import orjson

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.state import AgentState
from steptrail.domain.inference import ModelRequest, ToolChoice
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolSpec

__all__ = ["RequestDigest", "build_request"]


def build_request(state: AgentState, agent: AgentSnapshot, *, timeout: float | None) -> ModelRequest:
    """Return what the model is to be asked next. Hooks' amendments of the open step are applied in order."""
    step = state.fold.step
    messages = [*_opening(agent), *state.messages]
    tools, choice, parallel = agent.tools, agent.tool_choice, agent.parallel_tool_calls
    for amended in step.amendments if step else ():
        messages.extend(amended.extra_messages)
        if amended.tools is not None:
            tools = tuple(tool for tool in tools if tool.name in amended.tools)
        choice = amended.tool_choice or choice
        parallel = parallel if amended.parallel_tool_calls is None else amended.parallel_tool_calls
    return ModelRequest(
        messages=messages,
        tools=tools,
        tool_choice=choice if tools else "none",
        parallel_tool_calls=parallel,
        timeout=timeout,
        call_index=state.fold.inferences,
    )


def _opening(agent: AgentSnapshot) -> tuple[Message, ...]:
    prompt = (Message.system(agent.system_prompt),) if agent.system_prompt else ()
    return (*prompt, *agent.examples)


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> "_Hash": ...
    def hexdigest(self) -> str: ...


class RequestDigest:
    """Digests of growing requests. Keeps the hash of the longest prefix it has seen."""

    def __init__(self) -> None:
        self._hash: _Hash = hashlib.sha256()
        self._last: Message | None = None
        self._known = 0

    def digest(self, request: ModelRequest) -> str:
        """Return the SHA-256 of messages, tools and settings, in hexadecimal."""
        self._catch_up(request.messages)
        whole = self._hash.copy()
        whole.update(_settings(request.tools, request.tool_choice, request.parallel_tool_calls))
        return whole.hexdigest()

    def _catch_up(self, messages: Sequence[Message]) -> None:
        # Messages are immutable and shared, so the last one known tells whether the prefix still stands.
        if self._known > len(messages) or (self._known and messages[self._known - 1] is not self._last):
            self._hash, self._known = hashlib.sha256(), 0
        for message in messages[self._known :]:
            self._hash.update(message.__pydantic_serializer__.to_json(message))
            self._last = message
        self._known = len(messages)


def _settings(tools: Sequence[ToolSpec], choice: ToolChoice, parallel: bool | None) -> bytes:
    return orjson.dumps([[tool.model_dump(mode="json") for tool in tools], choice, parallel])
