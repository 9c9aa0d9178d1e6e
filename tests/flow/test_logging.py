"""What runs of workflows say through `logging`, and the place that is on the records of their nodes."""

import logging
import threading
from collections.abc import Iterator

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.testing import ScriptedModel
from steptrail.workflow import Check, Envelope, RetryPolicy, Update, Workflow
from tests.harness.kept_log import KeptLog, kept_log

own = logging.getLogger("shop")
CALLED: list[str] = []


@pytest.fixture
def kept() -> Iterator[KeptLog]:
    CALLED.clear()
    with kept_log("steptrail", "shop") as log:
        yield log


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Fail once."""
    own.info("on a thread of its own: %s", threading.current_thread() is not threading.main_thread())
    CALLED.append("look")
    if len(CALLED) == 1:
        raise ConnectionError("cut off")
    return "found"


def tidy(seen: Envelope) -> Update:
    own.info("tidying")
    return Update(set={"tidy": True})


def breaks(seen: Envelope) -> Update:
    raise KeyError("missing")


async def run(flow: Workflow) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow.build(), {}, session="f")


@pytest.mark.acceptance("8.5-6")
async def test_a_retry_is_a_warning_and_each_record_says_its_node(kept: KeptLog) -> None:
    again = RetryPolicy(max_attempts=2, backoff=0.001)
    await run(Workflow("w").function("tidy", tidy).tool("look", look, retry=again).chain("tidy", "look"))
    failed, retried = kept.of(logging.WARNING)
    assert failed.startswith("flow f: node look failed: ConnectionError: cut off (")
    assert retried == "flow f: node look again in 0.0 s, attempt 2"
    assert kept.of(logging.INFO) == [
        "flow f: execution f:1 of workflow w runs as segment 1",
        "flow f: execution f:1 completed (completed), decided by WorkDone",
    ]
    said, *place = kept.places("shop")[0]
    assert (said, place) == ("tidying", ["f", "f:1", None, "tidy", 1, "f:1:tidy:1"])
    for said, *place in kept.places("shop")[1:]:
        assert (said, place) == ("on a thread of its own: True", ["f", "f:1", None, "look", 1, "f:1:look:1"])


async def test_a_failed_run_is_an_error_that_names_the_node_and_what_was_raised(kept: KeptLog) -> None:
    await run(Workflow("w").function("work", breaks))
    (error,) = kept.of(logging.ERROR)
    assert error.startswith("flow f: execution f:1 failed (error), decided by ")
    assert "node work failed, error: KeyError: 'missing' (" in error
    ((said, trace),) = kept.traced()
    assert said.startswith("flow f: node work failed: KeyError: 'missing' (")
    assert 'raise KeyError("missing")' in trace


async def test_a_node_that_cannot_run_is_a_warning_without_what_it_was_given(kept: KeptLog) -> None:
    await run(Workflow("w").map("each", over="vars.nowhere", tool=look, args={}))
    (warning,) = kept.of(logging.WARNING)
    assert warning == "flow f: node each failed: config"
    assert kept.of(logging.ERROR)[0].endswith("node each failed, config")


async def test_what_a_guardian_refuses_is_in_no_record(kept: KeptLog) -> None:
    number = Check("schema", path="vars.said", schema={"type": "integer"})
    flow = Workflow("w").llm("ask", ScriptedModel(["ana@example.com"]), prompt="go", output="said")
    await run(flow.guardian("sound", [number]).chain("ask", "sound"))
    assert kept.of(logging.ERROR)[0].endswith("node sound failed, blocked")
    assert "ana@example.com" not in "".join(kept.texts())
