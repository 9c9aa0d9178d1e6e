"""The waterfall of a run of a workflow: a row a visit of a node, a lane its work, or each item of a map."""

from collections.abc import Sequence

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.events.about import TaskEvent, VisitEvent
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.rendering import many
from steptrail.projections.waterfall import Bar, Lane, Outcome, Waterfall, WaterfallRow, end_newest
from steptrail.projections.waterfall_rests import Rests


def flow_waterfall(records: Sequence[Recorded[stored.FlowEvent]]) -> Waterfall:
    """Return the waterfall of a stretch of the events of a workflow's runs."""
    return _VisitPen().drawing(records)


def ends_visit(event: Event) -> bool:
    """Tell whether a visit of a node ends with an event."""
    is_end = isinstance(event, stored.NodeCompleted | stored.NodeFailed | stored.NodeSkipped | stored.NodeCancelled)
    return is_end or (isinstance(event, stored.NodeFailureRecorded) and event.item is None)


class _VisitPen(Rests):
    def __init__(self) -> None:
        super().__init__()
        self._open: dict[tuple[str, int], WaterfallRow] = {}
        self._lanes: dict[tuple[str, int, int | None], Lane] = {}

    def apply(self, record: Recorded[stored.FlowEvent]) -> None:
        event, at, version = record.event, record.at, record.version
        match event:
            case stored.NodeOpened(node=node, visit=visit):
                name = f"{node} (visit {visit})" if visit > 1 else node
                begun = WaterfallRow(name=name, began=at, version=version)
                self.rows.append(begun)
                self._open[node, visit] = begun
            case stored.FlowResumed(ended_by=ended_by, worker=worker):
                self.resumed(at, version, ended_by, worker, waits_on=False)
            case stored.FlowForked():
                # What was under way stays with the source, and begins anew here under the same names.
                for left in self._open.values():
                    left.close(self._alive, "interrupted", "begins anew")
                self._open, self._lanes = {}, {}
            case stored.ExecutionFinished():
                for still_open in self._open.values():
                    still_open.close(at, "interrupted")
            case VisitEvent() if (row := self._open.get((event.node, event.visit))) is not None:
                self._apply_visit(row, event, at, version)
            case _:
                pass

    def _apply_visit(self, row: WaterfallRow, event: VisitEvent, at: int, version: int) -> None:
        match event:
            case stored.NodeAttemptStarted(attempt=attempt):
                self._lane(row, event).bars.append(Bar(began=at, version=version, attempt=attempt))
            case stored.NodeAttemptCompleted(is_kept=True):
                bar = Bar(began=at, version=version, attempt=0, ended=at, outcome="kept")
                self._lane(row, event).bars.append(bar)
            case stored.NodeAttemptCompleted():
                self._end(event, at, "completed")
            case stored.NodeAttemptFailed(failure=failure):
                self._end(event, at, "failed", failure.value)
            case stored.NodeAttemptInterrupted(reason=reason):
                self._end(event, at, "interrupted", reason.value)
            case stored.NodeAttemptSuspended(reason=reason):
                self._end(event, at, "suspended", reason)
            case stored.NodeCompleted(item_errors=errors):
                self._close(event, at, "completed", f"{many(errors, 'item')} failed" if errors else "")
            case stored.NodeFailed():
                self._close(event, at, "failed", "fails the run")
            case stored.NodeFailureRecorded(item=None):
                self._close(event, at, "failed", "tolerated")
            case stored.NodeSkipped():
                self._close(event, at, "refused", "skipped")
            case stored.NodeCancelled(reason=reason):
                self._close(event, at, "interrupted", f"cancelled: {reason}")
            case _:
                pass

    def _close(self, event: VisitEvent, at: int, outcome: Outcome, said: str) -> None:
        self._open.pop((event.node, event.visit)).close(at, outcome, said)

    def _lane(self, row: WaterfallRow, event: TaskEvent) -> Lane:
        lane = self._lanes.get(event.key)
        if lane is None:
            name = event.node if event.item is None else f"item {event.item + 1}"
            lane = self._lanes[event.key] = Lane(kind="node", name=name)
            row.lanes.append(lane)
        return lane

    def _end(self, event: TaskEvent, at: int, outcome: Outcome, said: str = "") -> None:
        end_newest(self._lanes.get(event.key), at, outcome, said)
