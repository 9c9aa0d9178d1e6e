"""The inbox of a follower: an update that comes after the event that supersedes it is dropped."""

from steptrail.domain.flow.events import NodeAttemptCompleted
from steptrail.domain.live import LiveUpdate, NodeDelta, ReplyDelta, ToolProgress
from steptrail.runtime.flow.kind import KIND
from steptrail.runtime.kernel.live_inbox import LiveInbox
from steptrail.runtime.kernel.live_updates import writes_nothing


def piece(step: int, text: str) -> ReplyDelta:
    return ReplyDelta(session_id="a", execution_id="a:1", step=step, attempt=1, text=text)


def progress(step: int) -> ToolProgress:
    return ToolProgress(session_id="a", execution_id="a:1", step=step, position=0, tool="scan", call_id="c")


def taken(inbox: LiveInbox) -> list[tuple[int, object]]:
    found: list[tuple[int, object]] = []
    while (version := inbox.version) is not None:
        found.append((version, inbox.take()))
    return found


async def test_an_update_from_before_the_event_that_settled_it_is_late() -> None:
    inbox, late, fresh = LiveInbox("a", lambda: None), piece(1, "late"), piece(2, "fresh")
    inbox.settle((), 5)
    for version, update in ((4, late), (3, progress(1)), (5, fresh)):
        inbox.put(version, update)
    assert taken(inbox) == [(5, fresh)]


async def test_of_the_time_before_the_beginning_only_the_reply_that_is_being_written_is_taken() -> None:
    inbox, writing, old = LiveInbox("a", lambda: None), piece(2, "writing"), piece(1, "old")
    updates: list[tuple[int, LiveUpdate]] = [(3, old), (6, writing)]
    for each in updates:
        inbox.put(*each)
    inbox.begin_after(7, writing=lambda update: isinstance(update, ReplyDelta) and update.step == 2)
    for each in updates:
        inbox.put(*each)
    assert taken(inbox) == [(6, piece(2, "writingwriting"))]


async def test_progress_is_taken_also_when_its_run_has_not_seen_the_newest_event() -> None:
    inbox = LiveInbox("a", lambda: None)
    inbox.begin_after(7, writing=writes_nothing)
    inbox.put(6, progress(2))
    assert taken(inbox) == [(6, progress(2))]


def of_node(node: str, text: str) -> NodeDelta:
    return NodeDelta(session_id="f", execution_id="f:1", node=node, visit=1, attempt=1, text=text)


async def test_the_end_of_one_node_supersedes_its_own_text_and_no_other_also_when_that_waits_behind_another() -> None:
    inbox = LiveInbox("flow:f", lambda: None)
    for version, update in ((7, of_node("b", "b")), (5, of_node("a", "a"))):  # text of another process keeps no order
        inbox.put(version, update)
    place = KIND.settles(NodeAttemptCompleted(node="a", visit=1, attempt=1, duration_seconds=0.0))
    assert place is not None
    inbox.settle(place, 6)
    inbox.put(5, of_node("a", " late"))
    inbox.put(7, of_node("b", " goes on"))
    assert taken(inbox) == [(7, of_node("b", "b goes on"))]
