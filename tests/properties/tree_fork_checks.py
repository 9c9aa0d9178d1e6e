"""What must hold of the forks of trees that have ended: what each shares with its source, and that it shares no more.

- The past is that of the source, event for event, and the conversation begins with it.
- Keys, open requests and waits stay with the source, and so does the place in a tree.
- Each effect and each stream below is the fork's own.
- What a fork was billed is what it shares and what it and those below it have used since.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from steptrail.domain.agent.events import SessionForked, ToolExecutionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.runs_view.tables import EXECUTIONS
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import entries, projected
from tests.properties.tree_forks import Fork
from tests.properties.tree_living import TreeLife


async def forks_hold(life: TreeLife, logs: Mapping[str, Sequence[Recorded[Any]]]) -> None:
    """Check the forks of a life that has ended."""
    rows = await life.rows()
    for fork in life.forks:
        if fork.stream not in rows:
            continue
        past, own = fork.shared, logs[fork.stream]
        history = await life.handle(fork.stream).history()
        assert history[: -len(own)] == (await life.handle(fork.source).history(at=past.version))
        assert isinstance(own[0].event, SessionForked)
        assert rows[fork.stream].fork_of == fork.source
        begun, ended = await life.handle(fork.stream).state(at=1), await life.handle(fork.stream).state()
        assert (begun.fold.keys, begun.parent, begun.pause_request) == ({}, None, None)
        # Of what is over, a fork too says who stopped it.
        assert begun.stop_request is None or not begun.is_open
        assert begun.execution is not None
        assert not begun.execution.waits
        assert list(ended.messages)[: len(past.messages)] == list(past.messages)
        for record in own:
            if isinstance(record.event, ToolExecutionStarted):
                assert record.event.effect_id.startswith(f"{ended.agent_id}:"), record
        _is_one_row_an_execution(fork, own, ended.fold.executions)


def _is_one_row_an_execution(fork: Fork, own: Sequence[Recorded[Any]], executions: int) -> None:
    rows = projected(RunsView(), entries(fork.stream, own)).of(EXECUTIONS)
    first = fork.shared.fold.executions + (not fork.shared.is_open)
    assert [row["ordinal"] for row in rows] == list(range(first, executions + 1))
    for row in rows:
        state = AGENT.evolve_all(fork.shared, own[: int(str(row["version"]))])
        said = (row["status"], row["stop_reason"], row["answered"])
        assert said == (state.status, state.stop_reason, state.answered), row
