"""Tools that give recorded results, so that a replay never touches the real ones."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from steptrail.domain.agent import events as stored
from steptrail.domain.digests import digest_of
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import CutBy
from steptrail.domain.usage import BilledUsage
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent import tool_port
from steptrail.runtime.agent.agent import Agent, AnyAgent
from steptrail.runtime.agent.given import an_agent
from steptrail.runtime.agent.resources import NeverOpened, name_of
from steptrail.runtime.agent.type_variables import ContextT, OutputT
from steptrail.testing.difference import difference_of_values
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import RecordedCall, RecordedRun
from steptrail.testing.replay_compaction import ReplayedCompaction
from steptrail.testing.replay_instructions import ReplayedInstructions
from steptrail.testing.replay_model import Live, Match, ReplayModel, until_cut
from steptrail.testing.replay_output import ReplayedOutput


def replayed(
    agent: Agent[OutputT, ContextT], recording: Recording, *, match: Match = "strict", live: Live | None = None
) -> Agent[OutputT, ContextT]:
    """Return the agent with the recorded model and tools in place of its own; all else is the agent's of today.

    Its resources are never opened.
    """
    agent = an_agent(agent)
    first, *later = [ReplayModel(recording, match=match, live=live, place=at) for at in range(len(agent.models))]
    output = ReplayedOutput(agent.output, recording) if agent.output is not None else None
    resources = NeverOpened(name_of(agent.resources), _unopened(recording)) if agent.resources is not None else None
    tools = replay_tools(agent, recording, live=live)
    instructions = ReplayedInstructions(agent.instructions, recording, live)
    compaction = agent.compaction
    if compaction is not None:
        tries = RecordedRun(recording, is_driven=live is not None).summaries
        compaction = ReplayedCompaction(**vars(compaction), session=recording.session, tries=tries, live=live)
    return replace(
        agent,
        model=first,
        fallback=tuple(later),
        tools=tools,
        output=output,
        resources=resources,
        instructions=instructions,
        compaction=compaction,
    )


def _unopened(recording: Recording) -> dict[int, str]:
    """Return why resources could not be opened, under the version of each event that says so."""
    waits = ((record.version, record.event) for record in recording.records)
    return {
        version: wait.problem or ""
        for version, wait in waits
        if isinstance(wait, stored.WaitStarted) and wait.kind == "resources"
    }


def replay_tools(
    agent: AnyAgent, recording: Recording, *, live: Live | None = None
) -> dict[str, tool_port.RunnableTool]:
    """Return the agent's tools, with recorded results in place of what they do.

    A call is found by its tool and the digest of its arguments, the first recorded one first. Failures are given as
    recorded, and so are calls whose outcome nobody knew; a call that was made again after a crash is given once. One
    that was not recorded raises `ReplayMismatch`. `live` is for `replay`.
    """
    shelf = _Shelf(recording, live)
    return {name: _ReplayedTool(tool, shelf) for name, tool in agent.tools.items()}


class _Shelf:
    """The recorded calls that have not been given yet."""

    def __init__(self, recording: Recording, live: Live | None) -> None:
        self.live, self._session = live, recording.session
        asked = (e for e in recording.events if isinstance(e, stored.ApprovalRequested | stored.ToolCallDeferred))
        self.asked = {(event.tool, event.arguments_digest) for event in asked}
        self._left: dict[tuple[str, str], list[RecordedCall]] = defaultdict(list)
        self._all = RecordedRun(recording, is_driven=live is not None).calls
        last = {call.effect_id: call for call in self._all}
        for call in self._all:
            was_repeated = call.was_cut_by in {"crash", "cancelled"} and last[call.effect_id] is not call
            if live is not None or not was_repeated:
                self._left[call.tool, call.digest].append(call)

    def take(self, tool: str, digest: str, arguments: JsonValue) -> RecordedCall:
        """Return the next recorded call of that tool with these arguments. Raises `ReplayMismatch`."""
        if left := self._left[tool, digest]:
            return left.pop(0)
        why = self._why(tool, digest, arguments)
        raise ReplayMismatch(f"a call of tool {tool!r} was not recorded in session {self._session!r}. {why}")

    def _why(self, tool: str, digest: str, arguments: JsonValue) -> str:
        known = [call for call in self._all if call.tool == tool]
        if not known:
            names = ", ".join(sorted({call.tool for call in self._all})) or "none"
            return f"It was never called there; the tools that were are: {names}"
        if alike := sum(call.digest == digest for call in known):
            return f"It was called {alike} time{'s' if alike != 1 else ''} with these arguments, and now once more"
        nearest = next((call for call in known if self._left[tool, call.digest]), known[-1])
        return f"First difference to a recorded call: argument {difference_of_values(nearest.arguments, arguments)}"


class _ReplayedTool:
    """A tool that gives what was recorded, with the spec and the digest of the real one."""

    def __init__(self, tool: tool_port.RunnableTool, shelf: _Shelf) -> None:
        self.spec, self._shelf = tool.spec, shelf
        self.digest = getattr(tool, "digest", None)
        self._check = getattr(tool, "check_arguments", None)

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: tool_port.Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit the real tool; None when they do.

        Those that somebody was asked about did, though what is left of them in a redacted recording may not.
        """
        if self._check is None or (self.spec.name, digest_of(_said(arguments, raw))) in self._shelf.asked:
            return None
        found: ErrorInfo | None = self._check(arguments, raw, capture)
        return found

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: tool_port.ToolContext,
        *,
        timeout: float | None,
        capture: tool_port.Capture,
    ) -> tool_port.ToolOutcome:
        """Return the recorded outcome; see `RunnableTool`."""
        said, live = _said(arguments, raw), self._shelf.live
        call = self._shelf.take(self.spec.name, digest_of(said), said)
        if live is not None:
            await live.reach_end(call)
        outcome = _outcome(call, is_driven=live is not None)
        if outcome is None:
            await until_cut(call, f"a call of tool {call.tool!r}", is_driven=live is not None)
        return outcome


def _said(arguments: Mapping[str, JsonValue] | None, raw: str | None) -> JsonValue:
    return dict(arguments) if arguments is not None else raw


def _outcome(call: RecordedCall, *, is_driven: bool) -> tool_port.ToolOutcome | None:
    """Return how the call ended; None when it was cut off and only a driver can do that again."""
    match call.end:
        case stored.ToolExecutionCompleted(result=result, shown_characters=shown, usage=usage, files=files):
            return tool_port.ToolSucceeded(result, most_shown=shown, usage=usage, files=files)
        case stored.ToolExecutionFailed(error=error, may_retry=may_retry, cut_by=CutBy(), usage=usage):
            return tool_port.ToolTimedOut(error, cancelled=True, may_retry=may_retry, usage=usage)
        case stored.ToolExecutionFailed(error=error, may_retry=may_retry, usage=usage):
            return tool_port.ToolFailed(error, may_retry, usage)
        case stored.ToolExecutionSuspended(session=session, reason=reason, until=until, usage=usage):
            return tool_port.ToolSuspended(session, reason, until, usage)
        case stored.ToolExecutionInterrupted(reason="deadline", usage=usage):
            return _unknown(call, usage)
        case stored.ToolExecutionInterrupted(reason="crash", usage=usage) if not is_driven:
            return _unknown(call, usage)
        case _:
            return None


def _unknown(call: RecordedCall, usage: BilledUsage | None) -> tool_port.ToolTimedOut:
    error = ErrorInfo(
        type=ErrorType.TIMEOUT,
        error_class="steptrail:RecordedInterruption",
        message=f"the recorded call of {call.tool!r} was cut off, and its outcome is unknown",
    )
    return tool_port.ToolTimedOut(error, cancelled=False, usage=usage)
