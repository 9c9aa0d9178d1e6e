"""The requests of a session's model calls, built from the state: prompt and examples, the conversation, the tools.

A request touches only what is new since the one before: it shows the conversation without copying it, and its digest,
which is all that is stored of it, is carried on from call to call.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

import msgspec
from msgspec.structs import replace

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import AgentEvent, InferenceStarted
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.request_view import rest_begins_at, shown_before
from steptrail.domain.agent.state import AgentState
from steptrail.domain.compact_json import compact_json
from steptrail.domain.files import with_newest_files
from steptrail.domain.inference import ModelRequest, ToolChoice
from steptrail.domain.instructions import instructing
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.output import OutputMode, OutputSpec
from steptrail.domain.tools import ToolSpec, tool_form


class Requests:
    """Builds the requests of one session, one after another."""

    def __init__(self) -> None:
        self._agent: AgentSnapshot | None = None
        self._opening: tuple[Message, ...] = ()
        self._instructions: tuple[Message, ...] = ()
        self._digest = _Digest()
        self._earlier: tuple[object, tuple[Message, ...]] | None = None
        self._newest: tuple[int, ModelRequest] | None = None
        self._offered: tuple[Sequence[ToolSpec], Sequence[ToolSpec]] | None = None

    def started(self, state: AgentState, agent: AgentSnapshot) -> ModelRequest:
        """Return the request of the model call whose start is the newest event of `state`.

        It is the one that was built for that start, where this process did that; else it is built again.
        """
        version, request = self._newest or (None, None)
        # A start changes nothing that the model is shown, so the request before it is also the one after it.
        return request if request is not None and version == state.version - 1 else self.build(state, agent)

    def build(self, state: AgentState, agent: AgentSnapshot) -> ModelRequest:
        """Return what the model is to be asked next. Hooks' amendments of the open step are applied in order."""
        fold = state.fold
        instructions, tail = instructing(agent.instructions, fold.instructions) if agent.instructions else ((), ())
        if agent is not self._agent or instructions != self._instructions:
            # Another agent may begin with as many other messages: the hash of the old ones is of no use.
            self._agent, self._opening, self._digest = agent, _opening(agent), _Digest()
            self._instructions = instructions
            self._offered = self._earlier = None
        step = fold.step
        messages: list[Sequence[Message]] = [self._opening, instructions, *self._said(fold, agent), tail]
        lasting = len(messages) - 1
        tools, choice, parallel = agent.tools, agent.tool_choice, agent.parallel_tool_calls
        for amended in step.amendments if step else ():
            messages.append(amended.extra_messages)
            if amended.tools is not None:
                tools = tuple(tool for tool in tools if tool.name in amended.tools)
            choice = amended.tool_choice or choice
            parallel = parallel if amended.parallel_tool_calls is None else amended.parallel_tool_calls
        said: Sequence[Message] = _Joined(messages)
        if agent.media_window is not None:
            # Which files are shown changes the middle of the conversation: the hash of the old one is of no use.
            said, self._digest = with_newest_files(said, agent.media_window), _Digest()
        request = ModelRequest(
            messages=said,
            tools=tools,
            tool_choice=choice if tools else ToolChoice.NONE,
            parallel_tool_calls=parallel,
            call_index=fold.inferences,
            opening=len(self._opening),
            tail=sum(map(len, messages[lasting:])),
        )
        if agent.output is not None:
            request = self._with_output(request, agent.output, state)
        self._newest = (state.version, request)
        return request

    def _with_output(self, request: ModelRequest, output: OutputSpec, state: AgentState) -> ModelRequest:
        """Return the request with what asks for an answer of the type; as it is when the mode asks for that later."""
        execution = state.fold.execution
        match output.mode:
            case OutputMode.LAST if execution is None or not execution.answer_due:
                return request
            case OutputMode.LAST:
                asked = replace(request, tools=(), tool_choice=ToolChoice.NONE)
            case OutputMode.TOOL:
                # Where no tool may be called, the answer still has to be.
                others = request.tools if request.tool_choice is not ToolChoice.NONE else ()
                choice = request.tool_choice if others else ToolChoice.REQUIRED
                asked = replace(request, tools=self._and_answer(others, output), tool_choice=choice)
            case _:
                asked = request
        return replace(asked, output=output, output_mode=output.mode)

    def _and_answer(self, tools: Sequence[ToolSpec], output: OutputSpec) -> Sequence[ToolSpec]:
        """Return the tools and the one of the answer. It is the same object for the same tools."""
        if self._offered is None or self._offered[0] is not tools:
            what = output.description or "Give the final answer: it ends the work."
            answer = ToolSpec(name=output.name, description=what, parameters=output.json_schema)
            self._offered = (tools, (*tools, answer))
        return self._offered[1]

    def _said(self, fold: SessionFold, agent: AgentSnapshot) -> Sequence[Sequence[Message]]:
        """Return the conversation in pieces: what is shown otherwise than it is stored, and the rest.

        The first piece is made once for each compaction, for each input where an agent shows no earlier calls, and when
        an answer is withdrawn.
        """
        if not (start := rest_begins_at(fold, agent)):
            return (fold.messages,)
        key = (fold.shortened, fold.withdrawn, None if agent.earlier_tool_traces else fold.input_at)
        if self._earlier is None or self._earlier[0] != key:
            # Other messages stand in the places of those that were there: the hash of these is of no use.
            self._earlier, self._digest = (key, tuple(shown_before(fold, start, agent))), _Digest()
        return self._earlier[1], _Rest(fold.messages, start)

    def digest(self, request: ModelRequest) -> str:
        """Return the SHA-256 of messages, tools and settings, in hexadecimal."""
        return self._digest.of(request)


def recorded_requests(session: str, records: Sequence[Recorded[AgentEvent]]) -> Iterator[tuple[int, ModelRequest, str]]:
    """Yield each request of `records`: the index of its `inference.started`, the request, and its digest.

    The log holds only digests. This one is that of the request as it is built here. If it differs from the recorded
    one, another version of the library built requests differently, or the log was changed. The deadlines of the calls
    are not known any more.
    """
    requests, state, folded = Requests(), initial(session), 0
    for index, record in enumerate(records):
        if not isinstance(record.event, InferenceStarted):
            continue
        state, folded = evolve_all(state, records[folded:index]), index
        if state.agent is not None:
            request = requests.build(state, state.agent)
            yield index, request, requests.digest(request)


def _opening(agent: AgentSnapshot) -> tuple[Message, ...]:
    said = [agent.system_prompt] if agent.system_prompt else []
    if agent.output is not None and agent.output.mode is OutputMode.PROMPTED:
        said.append(_prompt_of(agent.output))
    return (*([Message.system("\n\n".join(said))] if said else []), *agent.examples)


def _prompt_of(output: OutputSpec) -> str:
    """Return the part of the system prompt that asks for an answer by a schema."""
    what = f"{output.description}\n" if output.description else ""
    schema = compact_json(output.json_schema).decode()
    return f"{what}Answer with one JSON value that fits this JSON schema, and with nothing else:\n{schema}"


class _Joined(Sequence[Message]):
    """Several sequences, one after another, without a copy of any."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Sequence[Message]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return list(self)[index]
            found: list[Message] = []
            for part in self.parts:
                found += part[max(start, 0) : max(stop, 0)]
                start, stop = start - len(part), stop - len(part)
            return found
        place = index if index >= 0 else len(self) + index
        for part in self.parts if place >= 0 else ():
            if place < len(part):
                return part[place]
            place -= len(part)
        msg = f"index {index} is outside of {len(self)} messages"
        raise IndexError(msg)

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.parts)

    def __repr__(self) -> str:
        return repr(list(self))


class _Rest(Sequence[Message]):
    """The values of a log from a place on, without a copy of them."""

    __slots__ = ("log", "start")

    def __init__(self, log: Log[Message], start: int) -> None:
        self.log, self.start = log, start

    def __len__(self) -> int:
        return len(self.log) - self.start

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        places = range(self.start, len(self.log))[index]
        return self.log[places] if isinstance(places, int) else [self.log[place] for place in places]


def _encoded(messages: Sequence[Message], start: int) -> Iterator[bytes]:
    """Return the JSON of each message from index `start`. Those of a snapshot are taken as they were written there."""
    # Our two classes are compared, because `isinstance` asks the abstract class of all sequences, unless it is right.
    if type(messages) is _Joined:
        lines: list[Iterator[bytes]] = []
        for part in messages.parts:
            if len(part) > max(start, 0):
                lines.append(_encoded(part, max(start, 0)))
            start -= len(part)
        return chain.from_iterable(lines)
    if type(messages) is _Rest:
        return messages.log.encoded(messages.start + start, _json)
    return messages.encoded(start, _json) if isinstance(messages, Log) else map(_json, messages[start:])


_json: Callable[[Message], bytes] = msgspec.json.Encoder().encode


class _Digest:
    """Digests of growing requests. Keeps the hash of the longest prefix it has seen."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._last: Message | None = None
        self._known = 0
        self._newest_settings: tuple[Sequence[ToolSpec], ToolChoice, bool | None, bytes] | None = None
        self._newest_output: tuple[OutputSpec, bytes] | None = None

    def of(self, request: ModelRequest) -> str:
        """Return the digest of a request in hexadecimal."""
        lasting = len(request.messages) - request.tail
        self._catch_up(request.messages, lasting)
        whole = self._hash.copy()
        if request.tail:
            whole.update(b"".join(_encoded(request.messages, lasting)))
        whole.update(self._settings(request.tools, request.tool_choice, request.parallel_tool_calls))
        if request.output is not None:
            whole.update(self._output(request.output))
        return whole.hexdigest()

    def _catch_up(self, messages: Sequence[Message], count: int) -> None:
        # Messages are immutable and shared, so the last one known tells whether the prefix still stands.
        if self._known > count or (self._known and messages[self._known - 1] is not self._last):
            self._hash, self._known = hashlib.sha256(), 0
        if self._known == count:
            return
        self._hash.update(b"".join(islice(_encoded(messages, self._known), count - self._known)))
        self._known, self._last = count, messages[count - 1]

    def _output(self, output: OutputSpec) -> bytes:
        """Return the form of the answer as JSON. What is no part of the request is left out."""
        if self._newest_output is None or self._newest_output[0] is not output:
            form = [output.mode, output.name, output.description, output.is_strict, output.json_schema]
            self._newest_output = (output, compact_json(form))
        return self._newest_output[1]

    def _settings(self, tools: Sequence[ToolSpec], choice: ToolChoice, parallel: bool | None) -> bytes:
        """Return the settings as JSON. They are mostly those of the request before, and are not encoded again then."""
        known = self._newest_settings
        if known is None or known[0] is not tools or known[1:3] != (choice, parallel):
            form = compact_json([[tool_form(tool) for tool in tools], choice, parallel])
            known = self._newest_settings = (tools, choice, parallel, form)
        return known[3]
