"""Encodes the state of a workflow for snapshots, as one line of JSON.

Views share most of what they hold, and share it with what visits have written. So each view is written as what makes it
different from a view before it, and a value in it as the number of the visit that has written the value. When they are
read, views share as much as before. `FORMAT` names the version of the fold as well. It must change when events fold to
another state than before, or to a state of another shape.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, defstruct

from steptrail.domain.base import types_of
from steptrail.domain.flow.events import LimitReached, NodeFailed, StepAnswered
from steptrail.domain.flow.fold import FlowFold, RunFold, VisitFold
from steptrail.domain.flow.joins import Marking
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Landing, Task
from steptrail.domain.flow.views import Delta, View
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.machine import SnapshotCodec
from steptrail.domain.kernel.persistent import Layers
from steptrail.domain.readable import readable
from steptrail.domain.shared.requests import Request

S = TypeVar("S", bound=Struct)

FORMAT = "flow.25"

_START = 0
"""The number under which the start of a run has written the first values and messages."""

_HERE = -1
"""In place of the number of the visit that has written a value: the value stands with the view."""


class _Tail(Struct, array_like=True, frozen=True):
    """A log: how many items it shares with the view before, and where the others come from, by visit and place."""

    shared: int
    rest: list[tuple[int, int]]


class _WrittenView(Struct, array_like=True, frozen=True):
    """A view, as what makes it different from the one at the place `base` of the list; -1 for an empty one.

    An entry of `vars` has its number, its key, and the visit that has written it. `values` are those that none has.
    """

    number: int
    base: int
    past: str
    gone: list[str]
    vars: list[tuple[int, str, int]]
    values: list[JsonValue]
    messages: _Tail
    artifacts: _Tail
    errors: _Tail


class _WrittenEvent(Struct, array_like=True, frozen=True):
    """One of several kinds of events or of values, with its name."""

    name: str
    value: msgspec.Raw


_ONE_OF: dict[str, type[Struct]] = {
    kind.TYPE if issubclass(kind, Event) else kind.__name__: kind
    for kind in (*get_args(Landing), NodeFailed, LimitReached, StepAnswered, Request)
}


def _plain_type(kind: Any) -> Any:
    """Return the type of a collection in JSON."""
    if get_origin(kind) is Layers:
        return dict.__class_getitem__(get_args(kind))
    return list.__class_getitem__(get_args(kind)) if get_origin(kind) is Log else kind


def _form(kind: type[Struct], **instead: Any) -> type[Struct]:
    """Return the class in which an accumulator is written: its fields in order, some of another type."""
    types = {name: instead.get(name, _plain_type(hint)) for name, hint in types_of(kind).items()}
    return defstruct(f"Written{kind.__name__}", [*types.items()], array_like=True)


_MARKING = _form(Marking, forward=str, looping=str, opened=str)
_TASK = _form(Task, landing=_WrittenEvent | None)
_VISIT = _form(VisitFold, view=None)
_RUN = _form(
    RunFold,
    marking=_MARKING,
    views=list[_WrittenView],
    open=list[_VISIT],  # type: ignore[valid-type]
    tasks=list[_TASK],  # type: ignore[valid-type]
    ended_by=_WrittenEvent | None,
)
_FOLD = _form(FlowFold, execution=_RUN | None)

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(readable(_FOLD))


def _written(form: type[Struct], value: Struct, **instead: Any) -> Struct:
    """Return an accumulator in its form."""
    fields: list[Any] = []
    for name in form.__struct_fields__:
        item = instead[name] if name in instead else getattr(value, name)
        if isinstance(item, Layers):
            item = dict(item.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType]
        fields.append(list(item) if isinstance(item, Log) else item)  # pyright: ignore[reportUnknownArgumentType]
    return form(*fields)


def _read(kind: type[S], form: Any, **instead: Any) -> S:
    """Return an accumulator as it was written, collections of their own kind again, some fields with other values."""
    fields = dict(instead)
    for name, hint in types_of(kind).items():
        if name not in fields:
            item, origin = getattr(form, name), get_origin(hint)
            fields[name] = origin(item) if origin in {Layers, Log} else item
    return kind(**fields)


def _dump(state: FlowState) -> list[bytes]:
    run = state.fold.execution
    return [_ENCODE(_written(_FOLD, state.fold, execution=None if run is None else _run_written(run)))]


def _load(lines: Iterable[bytes]) -> FlowState:
    (line,) = lines
    try:
        form: Any = _DECODER.decode(line)
        fold = _read(FlowFold, form, execution=None if form.execution is None else _run_read(form.execution))
    except (LookupError, RecursionError) as error:
        raise ValueError(f"a snapshot that names what it does not hold: {error}") from error
    return FlowState(fold, as_of=fold.updated_at)


def _run_written(run: RunFold) -> Struct:
    marking = run.marking
    sets = {name: f"{getattr(marking, name):x}" for name in ("forward", "looping", "opened")}
    return _written(
        _RUN,
        run,
        marking=_written(_MARKING, marking, **sets),
        views=list(_views_written(run)),
        open=[_written(_VISIT, visit, view=None) for visit in run.open.values()],
        tasks=[_written(_TASK, task, landing=_named(task.landing)) for task in run.tasks.values()],
        ended_by=_named(run.ended_by),
    )


def _run_read(form: Any) -> RunFold:
    sets = {name: int(getattr(form.marking, name), 16) for name in ("forward", "looping", "opened")}
    views = _views_read(form.views, _deltas(form.started, form.ended))
    visits = [_read(VisitFold, each, view=views.pop(each.number)) for each in form.open]
    tasks = [_read(Task, each, landing=_unnamed(each.landing)) for each in form.tasks]
    return _read(
        RunFold,
        form,
        marking=_read(Marking, form.marking, **sets),
        views=views,
        open={visit.node: visit for visit in visits},
        tasks={task.key: task for task in tasks},
        ended_by=_unnamed(form.ended_by),
    )


def _named(value: Struct | None) -> _WrittenEvent | None:
    if value is None:
        return None
    name = value.TYPE if isinstance(value, Event) else type(value).__name__
    return _WrittenEvent(name, msgspec.Raw(_ENCODE(value)))


def _unnamed(written: _WrittenEvent | None) -> Any:
    return None if written is None else msgspec.json.decode(written.value, type=readable(_ONE_OF[written.name]))


def _deltas(started: Any, ended: Mapping[int, Any]) -> dict[int, Delta]:
    """Return what the start of a run and each of its visits have written."""
    start = Delta(sets=started.vars, messages=started.messages, artifacts=started.artifacts)
    return {_START: start, **{number: each.delta for number, each in ended.items()}}


class _Places:
    """Where each value was written, by the identity of the value."""

    def __init__(self, deltas: Mapping[int, Delta]) -> None:
        self.vars = {(key, id(value)): number for number, delta in deltas.items() for key, value in delta.sets.items()}
        self.items = {
            id(item): (number, place)
            for number, delta in deltas.items()
            for items in (delta.messages, delta.artifacts, delta.errors)
            for place, item in enumerate(items)
        }

    def tail(self, log: Log[Any], before: Log[Any]) -> _Tail:
        """Return a log as what comes after the items that it shares with another one."""
        shared = len(log) if log is before else 0
        if log is not before:
            for mine, other in zip(log, before, strict=False):
                if mine is not other:
                    break
                shared += 1
        return _Tail(shared, [self.items[id(item)] for item in log[shared:]])


def _views_written(run: RunFold) -> Iterator[_WrittenView]:
    views = {**run.views, **{visit.number: visit.view for visit in run.open.values()}}
    taken = {number: ended.inputs for number, ended in run.ended.items()}
    taken |= {visit.number: visit.inputs for visit in run.open.values()}
    written = dict[int, int]()
    places, empty = _Places(_deltas(run.started, run.ended)), View()
    for place, (number, base) in enumerate(_with_bases(views, {at: tokens[0][1] for at, tokens in taken.items()})):
        view, before = views[number], views.get(base, empty)
        gone, fresh = view.vars.since(before.vars)
        writers = [places.vars.get((key, id(value)), _HERE) for _, key, value in fresh]
        yield _WrittenView(
            number,
            written.get(base, -1),
            f"{view.past:x}",
            gone,
            [(order, key, writer) for (order, key, _), writer in zip(fresh, writers, strict=True)],
            [value for (_, _, value), writer in zip(fresh, writers, strict=True) if writer == _HERE],
            places.tail(view.messages, before.messages),
            places.tail(view.artifacts, before.artifacts),
            places.tail(view.errors, before.errors),
        )
        written[number] = place


def _with_bases(numbers: Iterable[int], source: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield each number with an earlier one, or -1: the one whose way from the start has most in common with its own.

    `source` has for each visit the first one that it comes after.
    """
    nearest = dict[int, int]()
    for number in numbers:
        way, at = [number], number
        while at not in nearest and at in source:
            at = source[at]
            way.append(at)
        yield number, nearest.get(at, -1)
        nearest |= dict.fromkeys(way, number)


def _views_read(written: Iterable[_WrittenView], deltas: Mapping[int, Delta]) -> dict[int, View]:
    views: list[View] = []
    numbers: list[int] = []
    for each in written:
        base = views[each.base] if each.base >= 0 else View()
        values = iter(each.values)
        fresh = [
            (order, key, next(values, None) if writer == _HERE else deltas[writer].sets[key])
            for order, key, writer in each.vars
        ]
        numbers.append(each.number)
        views.append(
            View(
                vars=base.vars.patched(each.gone, fresh),
                messages=_log_read(each.messages, base.messages, deltas, "messages"),
                artifacts=_log_read(each.artifacts, base.artifacts, deltas, "artifacts"),
                errors=_log_read(each.errors, base.errors, deltas, "errors"),
                past=int(each.past, 16),
            )
        )
    return dict(zip(numbers, views, strict=True))


def _log_read(tail: _Tail, base: Log[Any], deltas: Mapping[int, Delta], name: str) -> Log[Any]:
    shared = base if tail.shared == len(base) else base.first(tail.shared)
    return shared.appended(*(getattr(deltas[at], name)[place] for at, place in tail.rest)) if tail.rest else shared


SNAPSHOTS: SnapshotCodec[FlowState] = SnapshotCodec(FORMAT, _dump, _load)
"""The codec of snapshots of a workflow."""
