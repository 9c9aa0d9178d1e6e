"""An explanation is folded from the events of a session, however many of them are given at a time."""

from pathlib import Path

import pytest

from steptrail.domain.agent.events import ExecutionStarted
from steptrail.domain.errors import ConfigurationError
from steptrail.projections.agent_state import project_agent_state
from steptrail.projections.explanation import AgentExplainer, explain
from tests.golden.streams import FOLDER, read

NOW = 2_000_000_000_000_000

golden = pytest.mark.parametrize("stream", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)


@golden
@pytest.mark.parametrize("page", [1, 2, 7])
def test_pages_are_explained_as_the_whole_is(stream: Path, page: int) -> None:
    records = read(stream)
    executions = sum(isinstance(record.event, ExecutionStarted) for record in records)
    for execution in (None, *range(1, executions + 1)):
        explainer = AgentExplainer("s", execution)
        for start in range(0, len(records), page):
            explainer.add(records[start : start + page])
        explained = explainer.explanation(now=NOW)
        assert explained == explain("s", records, now=NOW, execution=execution)
        assert explainer.version == records[-1].version
        assert explained.is_newest is (execution in {None, executions})
        begin = [i for i, record in enumerate(records) if isinstance(record.event, ExecutionStarted)]
        end = len(records) if explained.is_newest else begin[execution or 0]
        assert explained.state == project_agent_state("s", records[:end])


@golden
def test_an_execution_that_there_is_not_is_refused_with_those_that_there_are(stream: Path) -> None:
    records = read(stream)
    started = [record.event.execution_id for record in records if isinstance(record.event, ExecutionStarted)]
    with pytest.raises(ConfigurationError, match=f"it has {', '.join(started)}$"):
        explain("s", records, now=NOW, execution="another")
