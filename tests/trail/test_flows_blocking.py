"""The blocking twin runs workflows as it runs agents."""

import inspect

import pytest

from steptrail import Steptrail
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.sync import SyncSession, SyncSteptrail
from steptrail.interfaces.python.sync_flow import SyncFlow
from steptrail.workflow import Envelope, Workflow


def twice(envelope: Envelope) -> int:
    number: int = envelope.input["n"]
    return number * 2


DOUBLE = Workflow("double", result="out").function("twice", twice, output="out").build()
ASKING = (
    Workflow("asking", result="said")
    .human("ask", type="input", prompt="How many?", output="many")
    .function("say", lambda e: e.get("many.data"), output="said")
    .chain("ask", "say")
    .build()
)


def test_a_workflow_is_run_asked_answered_and_gone_on_with() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        done = trail.run(DOUBLE, {"n": 4}, session="d")
        assert (done.output, done.status) == (8, "completed")
        assert trail.run(ASKING, session="a").status == "waiting"
        (question,) = trail.inbox()
        assert (question.kind, question.node, question.prompt) == ("human", "ask", "How many?")
        flow = trail.flow("a")
        assert flow.answer("ask", data=3, by="ana").status == "in_progress"
        assert flow.resume(ASKING).output == 3
        assert flow.result().output == flow.state().output == 3
        assert flow.why().verdict == "completed (completed): nothing was left to do"
        with flow.follow() as events:
            stored = [each for each in events if isinstance(each, Recorded)]
            assert stored[-1].event.TYPE == "execution.finished.v1"
        assert [entry.record.version for entry in trail.subscribe(session="flow:d", follow=False)] == list(range(1, 8))
        assert trail.tree("flow:d").run.name == "double"


def test_a_workflow_is_started_and_its_commits_are_told() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        told: list[str] = []
        started = trail.start(DOUBLE, {"n": 1}, key="k")
        assert isinstance(started, SyncFlow)
        assert started.state().status == "pending"
        flow = trail.flow(started.id, on_commit=lambda records: told.extend(each.event.TYPE for each in records))
        assert flow.resume(DOUBLE).output == 2
        assert (told[0], told[-1]) == ("flow.resumed.v1", "execution.finished.v1")
        assert trail.find_any(started.id).stream_id == f"flow:{started.id}"


@pytest.mark.parametrize(
    ("twin", "kind", "async_alone"),
    [
        (SyncFlow, Flow, {"stream"}),
        (SyncSession, Session, {"stream"}),
        (SyncSteptrail, Steptrail, {"stream", "work", "open", "open_sync"}),
    ],
)
def test_a_twin_has_every_method_but_those_for_async_code_alone(twin: type, kind: type, async_alone: set[str]) -> None:
    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert methods(twin) == methods(kind) - async_alone


def test_every_blocking_handle_has_the_id_of_its_stream() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        assert [each.id for each in (trail.session("s"), trail.flow("s"), trail.handle("s"))] == ["s"] * 3
        assert trail.fleet() is None
