"""Leaves a run to a worker that has the code which it, or the run of a workflow below it, may still call."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from steptrail.domain.errors import CommandRejected, CorruptRecord
from steptrail.domain.flow.lacking import lacking
from steptrail.domain.flow.state import FlowState
from steptrail.domain.shared.state import StreamState
from steptrail.runtime.agent.agent import is_agent
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS


async def refuse_other_versions(environment: Environment, stream: str, state: StreamState[Any], code: object) -> None:
    """Raise `CommandRejected` if a run, or one below it, may come to a node whose code `code` does not bring.

    It would fail there. `code` is the workflow or the agent that is to go on with the run in the `stream`.
    """
    if isinstance(code, BuiltWorkflow):
        _refuse(state, [code])
    brought, seen = list(_flows_of(code)), [(stream, state)]
    for at, above in seen if brought else ():
        if (kind := KINDS.of(at)) is None or not above.is_open or _is_ending(above):
            continue
        for stream_below in kind.machine.control.children(above):
            if (kind_below := KINDS.of(stream_below)) is None:
                continue
            with suppress(CorruptRecord):  # which is told by the node or the tool that goes on with it
                below, _ = await fold_stream(kind_below.machine, environment.store, stream_below)
                _refuse(below, [flow for flow in brought if flow.name == below.name])
                seen.append((stream_below, below))


def _refuse(state: StreamState[Any], versions: Sequence[BuiltWorkflow]) -> None:
    if not isinstance(state, FlowState) or (run := state.run) is None or (graph := state.graph) is None:
        return
    if not state.is_open or _is_ending(state) or any(flow.digest == run.started.digest for flow in versions):
        return
    gone = [lacking(run, graph, flow.definition, flow.functions) for flow in versions]
    if gone and all(gone):
        why = (
            f"it was begun with another version of {state.name!r}, and this one lacks what its node {gone[0][0]!r} "
            "calls: give a worker that version too"
        )
        raise CommandRejected("resume", state.stream_id, why)


def _is_ending(state: StreamState[Any]) -> bool:
    """Tell whether a run is to stop, or to pause for a person. Any version carries that out."""
    pause = state.pause_request
    return state.stop_request is not None or (pause is not None and pause.is_by_person)


def _flows_of(code: object) -> Iterator[BuiltWorkflow]:
    """Yield the workflows that the nodes of a workflow or the tools of an agent run, and those below them."""
    below: Iterable[object] = code.tools.values() if is_agent(code) else ()
    if isinstance(code, BuiltWorkflow):
        below = code.code.values()
    for each in below:
        flow = getattr(each, "flow", each)  # that of a tool
        if isinstance(flow, BuiltWorkflow):
            yield flow
        yield from _flows_of(flow)
