"""Write docs/state-machine.md from the tables that the code runs on, or check that it is fresh.

python scripts/state_machine.py            write the page
python scripts/state_machine.py --check    fail when the page is not what the code says
"""

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, get_args

from steptrail.domain.agent import call_phases, phases
from steptrail.domain.agent.call_phases import CallPhase, Said
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.phases import Outcome, Phase, Target
from steptrail.domain.content import content_of
from steptrail.domain.flow import phases as flow_phases, task
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.phases import Goal, RunPhase, TaskTarget
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.event import Event

Machine: TypeAlias = Mapping[Any, Mapping[Any, StrEnum]]
"""A phase -> an event, or an event and how it turned out -> the phase that follows."""

PAGE = Path(__file__).parents[1] / "docs" / "state-machine.md"
SHARED_BY = 5
"""A transition that so many phases have is drawn once, from the box around them."""

HEAD = """\
# The state machine of a session

<!-- Written by scripts/state_machine.py from domain/agent/phases.py and call_phases.py, and domain/flow/phases.py; a
test fails when it is stale. Do not edit. -->

A session is folded from its events. The phase says what it is in the middle of, and `next_effects` reads from it what
may be done next. The tables below are the ones that the fold runs on: an event moves a session from phase to phase by
the table of transitions, and leaves the phase as it is where the table has no entry. Resuming is no special case: after
a crash the same fold leads to the same phase.
"""

CALLS = """\
A step's tool calls are machines of their own, with a table of the same kind. An event that the table has no entry for
in a call's phase is applied to nothing: an interruption after the outcome was told, a late word about another attempt.
What is due for a call follows from its phase; `docs/adr/0056-a-call-is-a-machine.md` says why.
"""


FLOWS = """\
A run of a workflow is folded from its events in the same way, and so is each of its tasks: a visit of a node, or one
item of a map. The events that it shares with a session are those of the same name above. A run that was started for a
worker has a `flow.started.v1` without one, and is `pending` until a worker resumes it.
"""


def events() -> tuple[type[AgentEvent], ...]:
    """Return every event of a session, in the order in which they are declared."""
    members: tuple[type[AgentEvent], ...] = get_args(AgentEvent)
    return members


def events_of_flows() -> tuple[type[Event], ...]:
    """Return every event of a workflow that is none of a session, in the order in which they are declared."""
    return tuple(event for event in get_args(FlowEvent) if event not in events())


def meanings(enum: str, module: ModuleType = phases) -> dict[str, str]:
    """Return member -> docstring of an enum of a module of phases; only its source still has them."""
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == enum)
    found: dict[str, str] = {}
    for member, text in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            target = member.targets[0]
            assert isinstance(target, ast.Name)
            found[target.id] = " ".join(str(text.value.value).split())
    return found


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _event_of(key: Any) -> str:
    """Return how a key of a table reads: the stored type, with the outcome of a decision or what the event says."""
    match key:
        case (event, word):
            return f"{event.TYPE}, {word.value}"
        case _:
            return str(key.TYPE)


def _shown(target: StrEnum) -> str:
    return f"*{target.value}*" if isinstance(target, Target | Goal | TaskTarget) else target.value


def _transitions(machine: Machine) -> Iterator[tuple[str, ...]]:
    for phase, targets in machine.items():
        for key, target in targets.items():
            yield f"`{phase.value}`", f"`{_event_of(key)}`", _shown(target)


def _diagram(machine: Machine) -> Iterator[str]:
    shared = Counter((_event_of(key), target) for targets in machine.values() for key, target in targets.items())
    drawn_once = {edge for edge, count in shared.items() if count >= SHARED_BY}
    boxed = {p for p, t in machine.items() if any((_event_of(key), target) in drawn_once for key, target in t.items())}
    yield "stateDiagram-v2"
    yield f"    [*] --> {next(iter(machine)).value}"
    if boxed:
        yield "    state open {"
        yield from (f"        {phase.value}" for phase in machine if phase in boxed)
        yield "    }"
    for phase, targets in machine.items():
        for key, target in targets.items():
            if (_event_of(key), target) not in drawn_once:
                yield f"    {phase.value} --> {target.value}: {_event_of(key)}"
    for name, target in sorted(drawn_once):
        yield f"    open --> {target.value}: {name}"


def _moved_by(event: type[Event], machine: Machine) -> list[str]:
    moved = [p for p, t in machine.items() if any(event in (key if isinstance(key, tuple) else (key,)) for key in t)]
    return [f"`{phase.value}`" for phase in moved]


def _fields(event: type[Event]) -> Iterator[str]:
    """Yield the fields of an event, each with what of it is content."""
    for name in event.__struct_fields__:
        below = [path.removeprefix(f"{name}.") for path in content_of(event) if path.startswith(f"{name}.")]
        said = f" (content: {', '.join(f'`{path}`' for path in below)})" if below else ""
        yield f"`{name}`{' (content)' if name in event.CONTENT else said}"


def page() -> str:
    """Return the whole page."""
    machine, calls = phases.TRANSITIONS, call_phases.CALL_TRANSITIONS
    said = meanings("Phase")
    targets, outcomes = meanings("Target"), meanings("Outcome")
    of_calls, words = meanings("CallPhase", call_phases), meanings("Said", call_phases)
    return "\n".join(
        [
            HEAD,
            "## Phases\n",
            _table(("phase", "what the session is in the middle of"), ((f"`{p.value}`", said[p.name]) for p in Phase)),
            "## Transitions\n",
            "Where a decision is the event, the transition also goes by how it turned out: "
            + ", ".join(f"`{o.value}` ({_clause(outcomes[o.name])})" for o in Outcome)
            + ". Targets that are no phase: "
            + "; ".join(f"*{t.value}* is {_clause(targets[t.name])}" for t in Target)
            + ".\n",
            _table(("in", "event", "leads to"), _transitions(machine)),
            "## Diagram\n",
            f"A transition of {SHARED_BY} phases or more is drawn once, from the box; an arrow of a phase's own goes "
            "before it.\n",
            "```mermaid\n" + "\n".join(_diagram(machine)) + "\n```\n",
            "## Phases of a tool call\n",
            CALLS,
            _table(
                ("phase", "what the call is in the middle of"), ((f"`{p.value}`", of_calls[p.name]) for p in CallPhase)
            ),
            "## Transitions of a tool call\n",
            "An interruption also goes by what the event says that follows, and other events by a word of theirs: "
            + ", ".join(f"`{word.value}` ({_clause(words[word.name])})" for word in Said)
            + ".\n",
            _table(("in", "event", "leads to"), _transitions(calls)),
            "## Events\n",
            "The stored type and the names of the fields are the storage format. Content is what people and models "
            "said, the arguments and results of tools, and the texts of errors; all else is state.\n",
            _event_table(events(), "a session", machine, "a call", calls),
            *_of_flows(),
        ]
    )


def _of_flows() -> Iterator[str]:
    """Yield the sections about workflows."""
    runs, tasks = flow_phases.TRANSITIONS, flow_phases.TASK_TRANSITIONS
    of_runs, of_tasks = meanings("RunPhase", flow_phases), meanings("TaskPhase", task)
    goals, targets = meanings("Goal", flow_phases), meanings("TaskTarget", flow_phases)
    yield "## Phases of a run of a workflow\n"
    yield FLOWS
    yield _table(("phase", "what the run is in the middle of"), ((f"`{p.value}`", of_runs[p.name]) for p in RunPhase))
    yield "## Transitions of a run of a workflow\n"
    yield "A target that is no phase: " + "; ".join(f"*{g.value}* is {_clause(goals[g.name])}" for g in Goal) + ".\n"
    yield _table(("in", "event", "leads to"), _transitions(runs))
    yield "```mermaid\n" + "\n".join(_diagram(runs)) + "\n```\n"
    yield "## Phases of a task\n"
    yield _table(
        ("phase", "what the task is in the middle of"), ((f"`{p.value}`", of_tasks[p.name]) for p in TaskPhase)
    )
    yield "## Transitions of a task\n"
    said = "; ".join(f"*{target.value}* is {_clause(targets[target.name])}" for target in TaskTarget)
    yield f"Targets that are no phase: {said}. An event that ends a visit ends its tasks in any phase.\n"
    yield _table(("in", "event", "leads to"), _transitions(tasks))
    yield "```mermaid\n" + "\n".join(_diagram(tasks)) + "\n```\n"
    yield "## Events of workflows\n"
    yield _event_table(events_of_flows(), "a run", runs, "a task", tasks)


def _event_table(shown_of: tuple[type[Event], ...], whole: str, machine: Machine, part: str, parts: Machine) -> str:
    """Return the events, each with the phases of the whole, and of a part of it, that it moves."""
    rows = (
        (
            f"`{event.TYPE}`",
            inspect.cleandoc(event.__doc__ or "").splitlines()[0],
            ", ".join(_fields(event)) or "none",
            ", ".join(_moved_by(event, machine)) or "no phase",
            ", ".join(_moved_by(event, parts)) or "no phase",
        )
        for event in sorted(shown_of, key=lambda event: event.TYPE)
    )
    moves = (f"moves {whole} that is in", f"moves {part} that is in")
    return _table(("stored type", "what happened", "fields", *moves), rows)


def _clause(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].removesuffix(".")


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is fresh."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        fresh = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
        if not fresh:
            print("docs/state-machine.md is stale: run `python scripts/state_machine.py`", file=sys.stderr)
        return 0 if fresh else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
