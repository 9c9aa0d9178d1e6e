"""The waits of a run, in the terms of the kernel: one wait for each question, retry and stream below."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.ids import effect_id
from steptrail.domain.flow.task import Task, TaskPhase
from steptrail.domain.kernel.standing import Wait
from steptrail.domain.shared.events import WaitKind, WaitStarted

_OF_PEOPLE: Final[frozenset[WaitKind]] = frozenset({"human", "approval", "step", "unknown_outcome"})
"""The kinds of waits that a person ends."""

_FIRST: Final[tuple[WaitKind, ...]] = ("human", "approval", "step", "unknown_outcome", "child", "node_retry")
"""The kinds of waits. A run that waits for several things is said to wait for the first of these."""

_OF_PHASES: Final[Mapping[TaskPhase, WaitKind]] = {
    TaskPhase.RETRYING: "node_retry",
    TaskPhase.SUSPENDED: "child",
    TaskPhase.PARKED: "unknown_outcome",
}

Ends: TypeAlias = Sequence[tuple[int, Task]]
"""Waits that end by themselves: each with when that is, in microseconds of UTC, and its task."""

_END: Final = frozenset({TaskPhase.RETRYING, TaskPhase.SUSPENDED, TaskPhase.ASKED})
"""The phases of tasks whose waits may end by themselves."""

_ASKED: Final = frozenset({TaskPhase.ASKED, TaskPhase.PARKED})
"""The phases of tasks whose waits a person ends."""


def kind_of(task: Task) -> WaitKind | None:
    """Return what a task waits for; None for a task that waits for nobody."""
    if task.phase is not TaskPhase.ASKED:
        return _OF_PHASES.get(task.phase)
    if task.held is not None:
        return "step"
    return "human" if task.request is not None else "approval"


def waiting_until(run: RunFold, task: Task) -> int | None:
    """Return when the wait of a task ends by itself, in microseconds of UTC; None when it does not."""
    return next((end for end, _ in ends_of(run, [task])), None)


def ends_of(run: RunFold, tasks: Iterable[Task]) -> Ends:
    """Return the waits of some tasks of a run that end by themselves.

    It is asked before each step of a run, which may wait for thousands of things, so no function is called for each.
    """
    timeout, found = run.options.step_timeout, list[tuple[int, Task]]()
    asked, suspended = TaskPhase.ASKED, TaskPhase.SUSPENDED
    for task in [task for task in tasks if task.phase in _END]:
        end: int | None = None
        if task.phase is suspended:
            end = task.until
        elif task.phase is not asked:
            end = task.retry.due_at if task.retry is not None else None
        elif task.held is not None:
            end = None if timeout is None else task.asked_at + round(timeout * 1e6)
        elif (question := task.request or task.approval) is not None:
            end = question.expires_at
        if end is not None:
            found.append((end, task))
    return found


def next_wait(run: RunFold) -> WaitStarted | None:
    """Return the wait of a run in which nothing can go on; None when it waits for nothing."""
    awaited = list(_awaited(run, run.tasks.values()))
    ends = [end for end, _ in ends_of(run, [task for task, _ in awaited])]
    kinds = {kind for _, kind in awaited}
    first: WaitKind | None = next((kind for kind in _FIRST if kind in kinds), None)
    return None if first is None else WaitStarted(kind=first, until=min(ends, default=None))


def _awaited(run: RunFold, tasks: Iterable[Task]) -> Iterator[tuple[Task, WaitKind]]:
    """Yield those of some tasks that the run waits for, and how.

    Of a map that is held nothing is tried again before the answer, and without its resources the run tries nothing.
    """
    for task in tasks:
        kind = kind_of(task)
        is_tried_later = kind in {"node_retry", "child"} and (is_for_resources(run) or run.rests(task))
        if kind is not None and not is_tried_later:
            yield task, kind


def first_awaited(tasks: Iterable[Task]) -> Task | None:
    """Return the task because of which a run is said to wait; None when no task waits."""
    waiting = [(_FIRST.index(kind), task) for task in tasks if (kind := kind_of(task)) is not None]
    return min(waiting, key=lambda found: found[0], default=(0, None))[1]


def stays_for(run: RunFold, until: int | None, now: int) -> bool:
    """Tell whether the owner of a run stays for a wait that ends at `until`; otherwise it lets the run rest.

    Resources are opened once a segment, so another try to open them is another segment.
    """
    return until is not None and not is_for_resources(run) and (until - now) / 1e6 <= run.options.longest_wait


def is_for_resources(run: RunFold) -> bool:
    """Tell whether a run waits because its resources could not be opened."""
    return run.wait is not None and run.wait.kind == "resources"


def waits_of(run: RunFold) -> tuple[Wait, ...]:
    """Return what the run waits for now."""
    return tuple(_waits(run, run.tasks.values()))


def questions_of(run: RunFold) -> tuple[Wait, ...]:
    """Return the waits that a person ends. It is asked at each commit beside thousands of children at rest."""
    asked = [task for task in run.tasks.values() if task.phase in _ASKED]
    return tuple(wait for wait in _waits(run, asked) if wait.kind in _OF_PEOPLE)


def _waits(run: RunFold, tasks: Iterable[Task]) -> Iterator[Wait]:
    if run.wait is not None and is_for_resources(run):
        since = run.waiting_since
        yield Wait(id=f"{run.id}:resources", kind="resources", since=since, asked_at_version=0, due_at=run.wait.until)
    for task, kind in _awaited(run, tasks):
        if (visit := run.open.get(task.node)) is None:
            continue
        name = effect_id(visit.execution, task.node, task.visit, task.item)
        if task.held is not None:
            name = f"{name}:{task.held}"
        yield Wait(
            id=task.approval.id if kind == "approval" and task.approval is not None else name,
            kind=kind,
            since=task.asked_at,
            asked_at_version=task.asked_at_version,
            due_at=waiting_until(run, task),
            on=task.stream if kind == "child" else None,
        )
