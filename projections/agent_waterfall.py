"""The waterfall of an agent's session: a row a step, a lane the model and each tool call."""

from collections.abc import Sequence

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.ids import position_of
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.waterfall import Bar, Lane, Waterfall, WaterfallRow, end_newest
from steptrail.projections.waterfall_rests import Rests


def agent_waterfall(records: Sequence[Recorded[stored.AgentEvent]]) -> Waterfall:
    """Return the waterfall of a stretch of the events of a session."""
    return _StepPen().drawing(records)


class _StepPen(Rests):
    def __init__(self) -> None:
        super().__init__()
        self._row: WaterfallRow | None = None
        self._model: Lane | None = None
        self._calls: dict[int, Lane] = {}
        self._begun: dict[str, Lane] = {}
        """The calls of the step that were begun, by the ids of their effects."""
        self._names: tuple[str, ...] = ()

    def apply(self, record: Recorded[stored.AgentEvent]) -> None:
        event, at, version = record.event, record.at, record.version
        match event:
            case stored.StepStarted(number=number):
                self._row = WaterfallRow(name=f"step {number}", began=at, version=version)
                self.rows.append(self._row)
                self._model, self._calls, self._begun, self._names = None, {}, {}, ()
            case stored.StepCompleted(errors=errors) if self._row is not None:
                self._row.close(at, "failed" if errors else "completed")
                self._begun = {}
            case stored.ContinuationEvaluated() if self._row is not None and self._row.ended is not None:
                self._row.decision = Recorded(version, at, event)
            case stored.ExecutionResumed(ended_by=ended_by, worker=worker):
                self.resumed(at, version, ended_by, worker, waits_on=True)
            case stored.ExecutionFinished() if self._row is not None and self._row.ended is None:
                self._row.close(at, "interrupted")
            case _ if self._row is not None:
                self._apply_call(self._row, record)
            case _:
                pass

    def _apply_call(self, row: WaterfallRow, record: Recorded[stored.AgentEvent]) -> None:
        event, at = record.event, record.at
        match event:
            case stored.InferenceStarted(model=model, attempt=attempt):
                if self._model is None:
                    self._model = Lane(kind="model", name=model)
                    row.lanes.append(self._model)
                self._model.bars.append(Bar(began=at, version=record.version, attempt=attempt))
            case stored.InferenceCompleted(reply=reply):
                self._names = tuple(call.name for call in reply.tool_calls)
                end_newest(self._model, at, "completed")
            case stored.InferenceFailed(error=error):
                end_newest(self._model, at, "failed", error.type.value)
            case stored.InferenceInterrupted(reason=reason):
                end_newest(self._model, at, "interrupted", reason)
            case stored.ToolExecutionStarted(position=position, attempt=attempt, effect_id=effect):
                lane = self._begun[effect] = self._call(row, position)
                lane.bars.append(Bar(began=at, version=record.version, attempt=attempt))
            case stored.ToolCallDeferred(position=position, effect_id=effect):
                lane = self._begun[effect] = self._call(row, position)
                lane.bars.append(Bar(began=at, version=record.version))
            case stored.ToolExecutionCompleted(position=position):
                end_newest(self._calls.get(position), at, "completed")
            case stored.ToolExecutionFailed(position=position, error=error):
                lane = self._call(row, position)
                if not lane.bars:
                    lane.bars.append(Bar(began=at, version=record.version))
                end_newest(lane, at, "failed", error.type.value)
            case stored.ToolExecutionInterrupted(position=position, reason=reason):
                end_newest(self._calls.get(position), at, "interrupted", reason)
            case stored.ToolExecutionSuspended(position=position, reason=reason):
                end_newest(self._calls.get(position), at, "suspended", reason)
            case stored.ToolExecutionSettledLate(effect_id=effect, attempt=attempt, error=error):
                late = self._begun.get(effect)
                if late is not None and late.bars[-1].attempt == attempt:
                    end_newest(late, at, "failed" if error else "completed", error.type.value if error else "")
            case stored.ApprovalDenied(approval_id=effect) | stored.ApprovalExpired(approval_id=effect):
                self._refuse(row, position_of(effect), at, record.version)
            case stored.ToolCallCancelled(position=position) if (begun := self._calls.get(position)) is not None:
                # It stays what it came to: nobody may say of it that it did not run.
                end_newest(begun, at, "interrupted", begun.bars[-1].said)
            case stored.ToolCallBlocked(position=position) | stored.ToolCallCancelled(position=position):
                self._refuse(row, position, at, record.version)
            case _:
                pass

    def _refuse(self, row: WaterfallRow, position: int, at: int, version: int) -> None:
        self._call(row, position).bars.append(Bar(began=at, version=version, ended=at, outcome="refused"))

    def _call(self, row: WaterfallRow, position: int) -> Lane:
        lane = self._calls.get(position)
        if lane is None:
            name = self._names[position] if 0 <= position < len(self._names) else f"call {position}"
            lane = self._calls[position] = Lane(kind="tool", name=name)
            row.lanes.append(lane)
        return lane
