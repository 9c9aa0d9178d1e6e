"""The claims of the demo, each checked by comparing the log with what the tools wrote down themselves."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from history import Call, calls_of
from ledger import Line
from steptrail.events import AgentEvent, ExecutionFinished, Recorded

__all__ = ["Moment", "Proof", "nothing_twice", "of_the_limit", "of_the_order", "of_the_questions"]

Records = Sequence[Recorded[AgentEvent]]


@dataclass(frozen=True)
class Proof:
    """A claim, the figures behind it, and whether they bear it out."""

    claim: str
    figures: str
    holds: bool


@dataclass(frozen=True)
class Moment:
    """The log of a session and the ledger of its tools at one moment."""

    records: Records
    lines: Sequence[Line]

    @property
    def calls(self) -> list[Call]:
        """The tool calls so far."""
        return calls_of(self.records)


def nothing_twice(at_the_kill: Moment, at_the_end: Moment) -> list[Proof]:
    """Prove that a run which was killed and resumed repeated nothing that had finished."""
    finished = {call.effect_id for call in at_the_kill.calls if call.is_finished}
    again = [line for line in at_the_end.lines[len(at_the_kill.lines) :] if line.effect_id in finished]
    kept = [record.event for record in at_the_end.records[: len(at_the_kill.records)]]
    runs = Counter((line.effect_id, line.attempt) for line in at_the_end.lines)
    announced = {(call.effect_id, n) for call in at_the_end.calls for n in range(1, call.started + 1)}
    results = [len(call.results) for call in at_the_end.calls]
    ran = {line.effect_id for line in at_the_end.lines}
    unseen = [call for call in at_the_end.calls if call.is_finished and call.effect_id not in ran]
    return [
        Proof(
            "No tool that had finished before the kill ran again",
            f"{len(finished)} had finished, {len(again)} of them ran again",
            not again,
        ),
        Proof(
            "Every run in the ledger was in the log first, and no attempt ran twice",
            f"{len(at_the_end.lines)} runs in the ledger, {len(announced)} announced in the log",
            set(runs) <= announced and all(count == 1 for count in runs.values()),
        ),
        Proof(
            "Every result in the log comes from a tool that ran, and stands there once",
            f"{sum(results)} results of {len(results)} calls",
            not unseen and all(count == 1 for count in results),
        ),
        Proof(
            "The kill took nothing from the log",
            f"{len(kept)} events before, {len(at_the_end.records)} after",
            kept == [record.event for record in at_the_kill.records],
        ),
    ]


def of_the_questions(at_the_end: Moment, files: Sequence[str]) -> list[Proof]:
    """Prove that every question was answered on the strength of a tool's result."""
    finished = [record.event for record in at_the_end.records if isinstance(record.event, ExecutionFinished)]
    completed = [event for event in finished if event.stop_reason == "completed"]
    return [
        Proof(
            "Every question was answered, once",
            f"{len(completed)} of {len(files)} completed, {len(finished)} finished",
            len(completed) == len(finished) == len(files) and len(at_the_end.calls) >= len(files),
        )
    ]


def of_the_order(at_the_kill: Moment, at_the_end: Moment, payments: int) -> list[Proof]:
    """Prove that each tool of the order followed its declared effect class over the kill."""
    then, runs = ([line.tool for line in moment.lines] for moment in (at_the_kill, at_the_end))
    charged = [line for line in at_the_end.lines if line.tool == "charge"]
    ids = {line.effect_id for line in charged}
    return [
        Proof(
            "The kill hit the second of three tools",
            f"in the ledger at the kill: {', '.join(then)}",
            then == ["reserve", "charge"] and [call.is_finished for call in at_the_kill.calls] == [True, False],
        ),
        Proof(
            "Tool 1, unsafe and finished, was not repeated", f"{runs.count('reserve')} run", runs.count("reserve") == 1
        ),
        Proof(
            "Tool 2, keyed, ran again with the same effect id, and the bank paid once",
            f"{len(charged)} runs, {len(ids)} id ({', '.join(sorted(ids))}), {payments} payment",
            len(charged) == 2 and len(ids) == 1 and payments == 1,
        ),
        Proof("Tool 3 ran once", f"{runs.count('notify')} run", runs.count("notify") == 1),
    ]


def of_the_limit(records: Records, limit: int) -> list[Proof]:
    """Prove that the run stopped at its limit of steps, and for that reason."""
    last = records[-1].event
    stopped = isinstance(last, ExecutionFinished) and last.stop_reason == "steps_limit"
    steps = sum(record.event.TYPE == "step.completed.v1" for record in records)
    return [
        Proof("The run without an end stopped at its limit", f"{steps} of {limit} steps", stopped and steps == limit)
    ]
