"""One who asks why again and again is told the same as one who asks for the first time, and reads only what is new."""

from collections.abc import AsyncIterator, Sequence

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import AgentEvent, MetadataChanged
from steptrail.domain.kernel.record import Commit, CommitHead, Recorded
from steptrail.interfaces.python.explaining import Explainers, explained
from steptrail.projections.explanation import AgentExplainer
from steptrail.projections.kinds import Explanation
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import call
from tests.inspector.inspected import desk, publisher
from tests.runner.test_why_from_snapshots import Watched


@pytest.fixture
async def store() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.close()


async def again(store: Watched, stream: str, explainers: Explainers) -> Explanation:
    """Return what is told with what was kept, and see that it is what is told without."""
    kept = await explained(store, stream, now=10**16, explainers=explainers)
    told = kept.to_dict()
    assert told == (await explained(store, stream, now=10**16)).to_dict()
    return kept


async def test_a_session_that_grows_is_explained_from_what_is_new(store: Watched) -> None:
    trail, explainers = Steptrail(Environment(store=store)), Explainers(least_events=0)
    agent = desk(call("search", query="a"), "One.", call("look_up", key="k"), call("search", query="b"), "Two.")
    for text in ("first", "second", "third"):
        await trail.session("s").send(agent, text) if text != "first" else await trail.run(agent, text, session="s")
        assert (await again(store, "agent:s", explainers)).events
    store.read_events = 0
    await explained(store, "agent:s", now=10**16, explainers=explainers)
    assert store.read_events == 0


async def test_a_run_of_a_workflow_that_grows_is_explained_from_what_is_new(store: Watched) -> None:
    trail, explainers = Steptrail(Environment(store=store)), Explainers(least_events=0)
    await trail.run(publisher(), "tea", session="f")
    assert (await again(store, "flow:f", explainers)).waits_for
    await trail.flow("f").answer("review", approved=True, by="ana")
    await again(store, "flow:f", explainers)
    await trail.flow("f").resume(publisher())
    assert (await again(store, "flow:f", explainers)).waits_for is None


async def test_only_few_and_long_streams_are_kept(store: Watched) -> None:
    trail, explainers = Steptrail(Environment(store=store)), Explainers(most=1, least_events=15)
    await trail.run(desk("Short."), "Hi", session="short")
    for session in ("one", "two"):
        await trail.run(desk(call("search", query="a"), "Long."), "Hi", session=session)
    for session in ("one", "two", "short"):
        await explained(store, f"agent:{session}", now=10**16, explainers=explainers)
    assert [explainers.take(f"agent:{session}") is not None for session in ("one", "two", "short")] == [
        *(False, True, False),
    ]
    assert explainers.take("agent:two") is None


async def test_others_have_the_event_loop_between_some_hundred_events(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail, sizes = Steptrail(Environment(store=store)), list[int]()
    names = [f"tag{number}" for number in range(1200)]
    await trail.run(desk("One."), "first", session="s")
    head = await store.head("agent:s")
    changed = tuple((10**15, MetadataChanged(by="ana", changes={name: 1})) for name in names)
    await store.append("agent:s", head, Commit(CommitHead(commit_id="c", actor="ana"), changed))
    add = AgentExplainer.add

    def noted(explainer: AgentExplainer, records: Sequence[Recorded[AgentEvent]]) -> None:
        sizes.append(len(records))
        add(explainer, records)

    monkeypatch.setattr(AgentExplainer, "add", noted)
    assert (await explained(store, "agent:s", now=10**16)).to_dict()["status"] == "completed"
    assert sum(sizes) == await store.version("agent:s")
    assert max(sizes) <= 500
