"""What one reply looks like to a front end: begun live, ended by what is stored, taken back when it breaks off."""

import gc
import sys
import weakref
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
from ag_ui.core import Event, ReasoningMessage, RunFinishedEvent, TextMessageContentEvent

from steptrail import AgentBuilder
from steptrail.agui import AguiConfig, AguiFold
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.live import DeltaKind
from steptrail.events import InferenceCompleted, InferenceStarted
from steptrail.interfaces.http.agui.conversation import has_ended, wire_messages
from steptrail.interfaces.http.agui.reply import ReplyShown
from steptrail.live import ReplyDelta, UpdatesLost
from steptrail.models import FinishReason, ModelReply, Usage
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.tools import SubagentTool
from tests.runner.kit import agent_of, run
from tests.unit.agui.client import Client


async def told(
    script: Sequence[Reply], *live: str | UpdatesLost, config: AguiConfig | None = None, output: type[str | int] = str
) -> tuple[Client, list[str]]:
    """Tell a run whose first reply is seen in these pieces, and return the client with the types of the events."""
    records = (await run(agent_of(script).with_output(output).build())).records
    fold = AguiFold(evolve_all(initial("s"), records[:2]), run_id="r", config=config or AguiConfig())
    client, is_first = Client(), True
    client.take_all(fold.begin(joins=True))
    for record in records[2:]:
        client.take_all(fold.apply(record))
        if isinstance(record.event, InferenceStarted) and is_first:
            is_first = False
            for piece in live:
                update = (
                    ReplyDelta(session_id="s", execution_id="s:1", step=1, attempt=record.event.attempt, text=piece)
                    if isinstance(piece, str)
                    else piece
                )
                client.take_all(fold.show(update))
    client.take_all(fold.finish())
    return client, [event.type.value for event in client.seen]


def pieces(client: Client) -> list[str]:
    return [event.delta for event in client.seen if isinstance(event, TextMessageContentEvent)]


def contents(client: Client) -> list[str]:
    return [message.get("content", "") for message in client.said]


async def test_who_looks_on_holds_neither_the_conversation_nor_what_the_client_sent_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records, client = (await run(agent_of(["One."]).build())).records, Client()
    client.take_all(AguiFold(evolve_all(initial("s"), records)).begin(joins=True))
    held = [weakref.ref(message) for message in client.messages]

    def noted(*args: Any, **settings: Any) -> Any:
        made = wire_messages(*args, **settings)
        held.extend(weakref.ref(message) for message in made[0])
        return made

    monkeypatch.setattr("steptrail.interfaces.http.agui.fold.wire_messages", noted)
    fold = AguiFold(evolve_all(initial("s"), records), client=client.messages)
    assert len(held) == 4
    assert fold.begin(joins=True)
    del client
    gc.collect()
    assert not any(message() for message in held)


def test_a_piece_of_a_reply_copies_nothing_of_what_was_shown_before_it() -> None:
    copied = list[int]()

    class Piece(str):
        def __radd__(self, before: str) -> str:
            copied.append(len(before))
            return before + str(self)

    shown = ReplyShown("m", reasoning=True)
    kinds: tuple[DeltaKind, ...] = ("reasoning", "text")
    for kind in kinds:
        for number in range(100):
            assert shown.written(kind, Piece(f"{number} "))
    whole = "".join(f"{number} " for number in range(100))
    events = shown.stored(whole + "end", whole)
    assert [event.delta for event in events or () if isinstance(event, TextMessageContentEvent)] == ["end"]
    assert not copied


async def test_a_reply_that_was_not_seen_is_told_whole() -> None:
    client, _ = await told(["One two three."])
    assert pieces(client) == ["One two three."]


async def test_of_a_reply_that_was_seen_only_the_rest_is_told() -> None:
    client, kinds = await told(["One two three."], "One ", "two ")
    assert pieces(client) == ["One ", "two ", "three."]
    assert kinds.count("TEXT_MESSAGE_START") == kinds.count("TEXT_MESSAGE_END") == 1


async def test_behind_a_hole_nothing_is_told_before_the_whole_is_stored() -> None:
    client, _ = await told(["One two three."], "One ", UpdatesLost(session_id="s", count=1), "three.")
    assert pieces(client) == ["One ", "two three."]


async def test_another_text_than_was_seen_is_corrected() -> None:
    client, kinds = await told([call("add", a=1, b=2), "Three."], "This is not it")
    assert kinds.count("MESSAGES_SNAPSHOT") == 2
    assert "This is not it" not in contents(client)
    assert contents(client)[-1] == "Three."


async def test_an_event_has_only_the_calls_looked_at_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[int]()

    def noted(call: ToolExecution) -> bool:
        looked[-1] += 1
        return has_ended(call)

    monkeypatch.setattr("steptrail.interfaces.http.agui.fold.has_ended", noted)
    for count in (20, 40, 80):
        looked.append(0)
        client, _ = await told([calls(*[("add", {"a": 1, "b": 1})] * count), "Done."])
        assert contents(client)[-1] == "Done."
    assert looked[2] - looked[1] == 2 * (looked[1] - looked[0])


async def test_a_subagent_costs_the_same_however_many_others_the_reply_begins() -> None:
    asked = list[int]()

    def note(frame: FrameType, event: str, _: object) -> None:
        asked[-1] += event == "call"

    for count in (10, 20, 40):
        below = SubagentTool(agent_of(["Done."] * count).build(), name="below", description="Do it.")
        above = AgentBuilder("above").with_model(
            ScriptedModel([calls(*[("below", {"prompt": f"{n}"}) for n in range(count)]), "Done."])
        )
        records = (await run(above.with_tools(below).build())).records
        fold = AguiFold(evolve_all(initial("s"), records[:2]))
        asked.append(0)
        gc.disable()  # what other tests left behind calls functions of its own when it is collected
        sys.setprofile(note)
        try:
            told = [event for record in records[2:] for event in fold.apply(record)]
        finally:
            sys.setprofile(None)
            gc.enable()
        assert sum(event.type.value == "SUBAGENT_STARTED" for event in told) == count
    assert asked[2] - asked[1] < 2.1 * (asked[1] - asked[0])


async def test_text_of_a_reply_that_broke_off_is_taken_back() -> None:
    client, kinds = await told([RuntimeError("gone"), "Unreached."], "I was about to")
    assert contents(client) == ["go"]
    assert kinds[-1] == "RUN_ERROR"


@pytest.mark.parametrize("seen", ["3", UpdatesLost(session_id="s", count=1)], ids=["text", "a hole"])
async def test_a_reply_of_which_nothing_is_stored_is_taken_back_before_the_next_one(seen: str | UpdatesLost) -> None:
    nothing = ModelReply(parts=(), finish_reason=FinishReason.STOP, usage=Usage())
    client, _ = await told([nothing, "31"], seen, output=int)
    unseen, _ = await told([nothing, "31"], output=int)
    assert client.said == unseen.said
    assert contents(client)[-1] == "31"


async def test_what_an_error_says_is_told_when_that_is_asked_for() -> None:
    silent, _ = await told([RuntimeError("the disk is full")])
    speaking, _ = await told([RuntimeError("the disk is full")], config=AguiConfig(include_errors=True))
    assert getattr(silent.seen[-1], "message", "") == "The run failed (error)."
    assert "the disk is full" in getattr(speaking.seen[-1], "message", "")


async def test_live_updates_that_come_late_mean_nothing() -> None:
    records = (await run(agent_of(["One."]).build())).records
    fold = AguiFold(evolve_all(initial("s"), records))
    late = ReplyDelta(session_id="s", execution_id="s:1", step=1, attempt=1, text="One.")
    assert fold.show(late) == []


async def test_usage_is_what_was_billed_since_the_run_began() -> None:
    used = Usage(input=10, cache_read=5, output=3, reasoning=2)
    records = (await run(agent_of([call("add", a=1, b=2), say("Three.", usage=used)]).build())).records
    first = next(record.version for record in records if isinstance(record.event, InferenceCompleted))
    fold = AguiFold(evolve_all(initial("s"), records[:first]))
    for record in records[first:]:
        fold.apply(record)
    last: Event = fold.finish()[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.usage is not None
    (entry,) = last.usage
    assert (entry.input_tokens, entry.output_tokens, entry.total_tokens) == (15, 5, 20)
    assert (entry.cached_input_tokens, entry.reasoning_tokens) == (5, 2)


async def test_a_client_ends_with_the_state_of_a_run_that_has_ended() -> None:
    config = AguiConfig(state=lambda state: {"status": state.status.value})
    client, types = await told([RuntimeError("gone")], config=config)
    assert client.state == {"status": "failed"}
    assert types[-2:] == ["STATE_SNAPSHOT", "RUN_ERROR"]


async def test_thoughts_are_told_once_to_a_client_that_comes_back_and_apart_for_each_try() -> None:
    records = (await run(agent_of(["It rains."]).build())).records
    asked = next(place for place, record in enumerate(records) if isinstance(record.event, InferenceStarted))
    state = evolve_all(initial("s"), records[: asked + 1])
    config, client = AguiConfig(include_reasoning=True), Client()

    def look(attempt: int, *pieces: str) -> AguiFold:
        assert state.fold.step is not None
        state.fold.step.inference_attempt = attempt
        held = [ReasoningMessage(id=message_id, content=text) for message_id, text in client.thoughts.items()]
        fold = AguiFold(state, run_id="r", config=config, client=held)
        client.take_all(fold.begin(joins=True))
        for piece in pieces:
            update = ReplyDelta(
                session_id="s", execution_id="s:1", step=1, attempt=attempt, kind="reasoning", text=piece
            )
            client.take_all(fold.show(update))
        return fold

    client.take_all(look(1, "Does ", "it ").fail("cut off", "cut"))
    client.take_all(look(1, "Does it ", "rain?").fail("cut off", "cut"))
    assert list(client.thoughts.values()) == ["Does it rain?"]
    client.take_all(look(2, "Do", "gs").fail("cut off", "cut"))
    client.take_all(look(2, "D", "ogs").fail("cut off", "cut"))
    assert list(client.thoughts.values()) == ["Does it rain?", "Dogs"]
