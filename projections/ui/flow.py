"""A run of a workflow as a front end shows it: its nodes, its open questions, its errors and where it stands."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from steptrail.domain.flow.events import FlowEvent, LimitReached, NodeFailed
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.files import files_named
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.flow_graph import drawn_run
from steptrail.projections.flow_questions import questions_of_flow
from steptrail.projections.lifecycle.flow_nodes import QuestionKind
from steptrail.projections.questions import Question
from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.flow_models import UiFlowError, UiFlowNode, UiFlowQuestion, UiFlowRun

_FAILED = "The node failed."


def ui_flow(flow_id: str, records: Iterable[Recorded[FlowEvent]], config: UiConfig | None = None) -> UiFlowRun:
    """Return all that a front end shows of a stream of a workflow, given its events, as of `flow.history()`.

    `include_tool_results` shows the output too, and the words and variables of questions; `include_tool_errors` shows
    why nodes failed.
    """
    shown, events = config or UiConfig(), tuple(records)
    state = evolve_all(initial(flow_id), events)
    return UiFlowRun(
        flow_id=flow_id,
        name=state.name,
        status=state.status,
        version=state.version,
        execution_id=state.execution_id,
        nodes=_nodes(events),
        questions=tuple(_question(each, shown) for each in questions_of_flow(flow_stream(flow_id), state)),
        errors=tuple(
            UiFlowError(
                node=error.node_id,
                visit=error.visit,
                item=error.item,
                failure=error.failure.value,
                message=error.message if shown.include_tool_errors else _FAILED,
            )
            for error in state.errors
        ),
        stop_reason=state.stop_reason,
        error_message=_why(state, shown),
        output=state.output if shown.include_tool_results and not state.is_open else None,
    )


def files_shown(state: FlowState, config: UiConfig) -> Iterator[FilePart]:
    """Yield the files for which the output and the variables of questions stand, as far as these are shown."""
    if config.include_tool_results:
        yield from () if state.is_open else files_named(state.output, state.files)
        for question in questions_of_flow(flow_stream(state.flow_id), state):
            yield from files_named(dict(question.data or {}), state.files)


def _nodes(events: Sequence[Recorded[FlowEvent]]) -> tuple[UiFlowNode, ...]:
    drawn = drawn_run(record.event for record in events)
    if drawn is None:
        return ()
    return tuple(
        UiFlowNode(id=node.id, kind=node.kind, mark=node.mark, ran=node.ran, tries=node.tries) for node in drawn.nodes
    )


def _question(question: Question, config: UiConfig) -> UiFlowQuestion:
    return UiFlowQuestion(
        id=question.id,
        kind=cast("QuestionKind", question.kind),
        node=question.node or "",
        type=question.type,
        prompt=question.prompt if config.include_tool_results else None,
        options=(tuple(question.options) or None) if config.include_tool_results else None,
        data=dict(question.data) if question.data and config.include_tool_results else None,
        tool=question.tool,
        args=config.shown_args(question.arguments),
        args_summary=config.shown_summary(question.arguments),
        digest=question.digest,
        expires_at=question.expires_at.isoformat() if question.expires_at is not None else None,
        reason=question.reason,
    )


def _why(state: FlowState, config: UiConfig) -> str | None:
    if state.status is not ExecutionStatus.FAILED or state.run is None:
        return None
    match state.run.ended_by:
        case NodeFailed(error=error):
            return f"{error.node_id}: {error.message if config.include_tool_errors else _FAILED}"
        case LimitReached() as limit:
            return limit.said
        case _:
            return state.stop_reason.value if state.stop_reason is not None else None
