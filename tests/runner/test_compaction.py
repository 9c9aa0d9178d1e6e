"""Compaction at work: a conversation that outgrows its model goes on with less of it, and nobody loses a word."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from steptrail import Agent, AgentBuilder, Compaction, ErrorPolicy, HookType, Limits, Message, ToolEffect, tool
from steptrail.domain.agent.events import (
    ConversationCompacted,
    InferenceFailed,
    InferenceStarted,
    StepStarted,
)
from steptrail.domain.agent.snapshot import SNAPSHOTS, lines_of
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.usage import Usage
from steptrail.errors import ConfigurationError
from steptrail.hooks import HookState
from steptrail.interfaces.python.loading import close_models
from steptrail.messages import Image
from steptrail.runtime.agent.request import Requests, recorded_requests
from steptrail.testing import Recording, Reply, ScriptedModel, calls, replay, say
from tests.properties.pairs import unpaired
from tests.runner.kit import Crash, again_on, crash_at, hook, run, trail_of

WINDOW = 1_000
LONG = 3_000


@tool(effect=ToolEffect.READ)
def look(n: int) -> str:
    """Read a page."""
    return f"page {n}: " + "word " * (LONG // 5)


def page(n: int, tokens: int = 10) -> ModelReply:
    return calls(("look", {"n": n}), usage=Usage(input=tokens, output=5))


class TooLong(Exception):
    """The provider says that the request is too long."""

    status_code, code = 400, "context_length_exceeded"


def reader(
    *script: Reply,
    above: float = 0.8,
    keep_steps: int = 2,
    summarizer: Any = None,
    clear_results_above: int = 100_000,
    policy: ErrorPolicy | None = None,
) -> AgentBuilder:
    compaction = Compaction(
        above=above,
        window=WINDOW,
        keep_steps=keep_steps,
        summarizer=summarizer,
        clear_results_above=clear_results_above,
    )
    builder = AgentBuilder("reader").with_model(ScriptedModel(script)).with_tools(look).with_compaction(compaction)
    return builder.with_error_policy(policy) if policy is not None else builder


def asked_of(builder: AgentBuilder) -> tuple[Agent, ScriptedModel]:
    agent = builder.build()
    return agent, cast("ScriptedModel", agent.model)


def told(request: ModelRequest) -> list[str]:
    """Return who says what in a request, by the first letters."""
    return [f"{message.role.value[0]} {message.text[:8]}".rstrip() for message in request.messages]


FOUR = [page(0), page(1), page(2), page(3, 900)]


async def test_a_summary_stands_for_what_came_before_the_last_steps() -> None:
    agent, model = asked_of(reader(*FOUR, say("They were pages.", usage=Usage(input=700, output=40)), "Done."))
    ran = await run(agent, "Read all.")
    assert ran.result.output == "Done."
    event = ran.one(ConversationCompacted)
    assert (event.through_step, event.through_message, event.kept) == (4, 5, (0,))
    assert (event.summary, event.by, event.tokens_before, event.problem) == ("They were pages.", "scripted", 900, None)
    assert told(model.requests[-1]) == ["u The conv", "u Read all", "a", "t page 2:", "a", "t page 3:"]
    assert "They were pages." in model.requests[-1].messages[0].text
    assert "page 1:" in model.requests[4].messages[1].text
    assert len(ran.result.state.messages) == 10
    assert [message for piece in ran.result.state.request_messages for message in piece][:6] == list(
        model.requests[-1].messages
    )


async def test_its_tokens_are_billed_and_everybody_says_so() -> None:
    agent, _ = asked_of(reader(*FOUR, say("Pages.", usage=Usage(input=700, output=40)), "Done."))
    ran = await run(agent)
    state = ran.result.state
    assert state.usage.total == 3 * 15 + 905 + 740 + 15
    assert [each.usage.total for each in state.model_usage] == [state.usage.total]
    assert str(state.compacted) == "900 -> 10 tokens after step 4 (summary by scripted)"
    assert ran.why.to_dict()["compacted"] == {
        "number": 1,
        "step": 4,
        "tokensBefore": 900,
        "how": "summary by scripted",
        "tokensAfter": 10,
    }


async def test_a_limit_that_the_summary_reaches_ends_the_run_before_the_next_step() -> None:
    agent, _ = asked_of(reader(*FOUR, say("Pages.", usage=Usage(input=5_000)), "Never.").with_max_tokens(2_000))
    ran = await run(agent)
    assert ran.ending == ("completed", "token_limit")
    assert len(ran.all(StepStarted)) == 4
    assert ran.decisions[-1] == (4, "resume", False, "TokenUsageLimit")


async def test_long_results_are_left_out_first_and_nobody_is_asked_when_that_is_enough() -> None:
    builder = reader(*FOUR, "Done.", keep_steps=1, clear_results_above=2_000)
    agent, model = asked_of(builder)
    ran = await run(agent, "Read all.")
    event = ran.one(ConversationCompacted)
    assert (event.summary, event.by, event.cleared_calls, event.through_message) == (None, None, 3, 0)
    assert str(event) == "900 tokens after step 4, 3 results left out"
    last = model.requests[-1].messages
    assert [message.text for message in last if message.is_tool()][:3] == [
        "[result of look, 3,008 characters, left out]"
    ] * 3
    assert last[-1].text.startswith("page 3")
    assert not any(unpaired(request) for request in model.requests)


@pytest.mark.acceptance("10.4-2")
async def test_a_refused_request_is_compacted_and_made_again_in_the_same_step() -> None:
    script: list[Reply] = [page(0), page(1), page(2), TooLong("too long"), "Pages.", "Done."]
    agent, model = asked_of(reader(*script))
    ran = await run(agent)
    assert ran.ending == ("completed", "completed")
    assert len(ran.all(StepStarted)) == 4
    assert [event.attempt for event in ran.all(InferenceStarted)] == [1, 1, 1, 1, 2]
    assert ran.result.state.total_failures == 0
    assert ran.one(InferenceFailed).error.code == "context_length_exceeded"
    assert not any(unpaired(request) for request in model.requests)


async def test_what_stays_too_long_keeps_only_the_last_step_and_then_fails() -> None:
    script: list[Reply] = [*map(page, range(4)), TooLong("no"), "Short.", TooLong("no"), "Shorter.", TooLong("no")]
    agent, model = asked_of(reader(*script))
    ran = await run(agent)
    assert ran.ending == ("failed", "error")
    first, second = ran.all(ConversationCompacted)
    assert (first.through_message, second.through_message) == (5, 7)
    assert told(model.requests[-1]) == ["u The conv", "u go", "a", "t page 3:"]
    assert len(ran.all(InferenceFailed)) == 3


async def test_results_of_the_last_step_alone_that_are_too_long_are_left_out_as_the_last_resort() -> None:
    script: list[Reply] = [page(0), TooLong("no"), "I cannot read that.", page(1), "Done."]
    agent, model = asked_of(reader(*script, clear_results_above=2_000))
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        result = await trail.session("s").send(agent, "And now?")
        assert result.output == "Done."
    note = "[result of look, 3,008 characters, left out]"
    assert [message.text for message in model.requests[2].messages][-1] == note
    assert [message.text[:44] for message in model.requests[-1].messages if message.is_tool()] == [
        note,
        result.state.messages[-2].text[:44],
    ]
    assert not any(unpaired(request) for request in model.requests)


async def test_a_refusal_of_a_conversation_that_is_all_new_fails_the_step() -> None:
    ran = await run(reader(TooLong("too long")).build())
    assert ran.ending == ("failed", "error")
    assert not ran.all(ConversationCompacted)


@pytest.mark.acceptance("10.4-4")
async def test_a_conversation_that_does_not_fit_is_not_compacted_for_ever() -> None:
    big: list[Reply] = [*FOUR, "Pages.", page(4, 900), "Other pages.", page(5, 900), "Never."]
    ran = await run(reader(*big).build())
    assert ran.ending == ("completed", "guard")
    assert len(ran.all(ConversationCompacted)) == 2
    assert "takes 900 tokens after 2 compactions, and the mark is 800" in ran.why.verdict
    assert ran.why.advice is not None
    assert "with_compaction" in ran.why.advice.changes[0].text


def raising(messages: Sequence[Message]) -> str:
    raise RuntimeError(f"no summary of {len(messages)}")


async def awaited(messages: Sequence[Message]) -> ModelReply:
    await asyncio.sleep(0)
    return say(f"{len(messages)} messages", usage=Usage(input=3))


def nothing(messages: Sequence[Message]) -> str:
    del messages
    return " \n"


def longer(messages: Sequence[Message]) -> str:
    return "".join(map(repr, messages)) * 2


def nonsense(messages: Sequence[Message]) -> str:
    return cast("str", len(messages))


async def cancelling(messages: Sequence[Message]) -> str:
    raise asyncio.CancelledError(len(messages))


@pytest.mark.parametrize(
    ("summarizer", "why"),
    [
        (raising, "RuntimeError: no summary of 3"),
        (nothing, "SummaryUnfit: the summary is empty"),
        (longer, "SummaryUnfit: the summary is longer than what it stands for"),
        (nonsense, "TypeError: tests.runner.test_compaction.nonsense returned int, not a text or a ModelReply"),
        (cancelling, "RuntimeError: the effect cancelled itself, and nobody had asked it to"),
        (ScriptedModel([say("…", finish_reason="content_filter")], name="short"), "ended with content_filter"),
    ],
)
async def test_without_a_summary_long_results_are_left_out_and_the_run_goes_on(summarizer: object, why: str) -> None:
    agent, model = asked_of(reader(*FOUR, "Done.", summarizer=summarizer, clear_results_above=2_900, keep_steps=3))
    ran = await run(agent)
    assert ran.result.output == "Done."
    event = ran.one(ConversationCompacted)
    assert (event.summary, event.cleared_calls, event.through_message) == (None, 1, 0)
    assert event.problem is not None
    assert why in event.problem.said
    assert len(model.requests[-1].messages) == 9


async def test_a_function_may_give_the_reply_of_a_model_which_is_billed() -> None:
    ran = await run(reader(*FOUR, "Done.", summarizer=awaited).build())
    event = ran.one(ConversationCompacted)
    assert (event.summary, event.by) == ("5 messages", "tests.runner.test_compaction.awaited")
    assert [each.asked_for for each in ran.result.state.model_usage] == ["scripted", event.by]


def wordy(messages: Sequence[Message]) -> str:
    return "A cup. " * 100 * len(messages)


async def test_a_summary_of_images_may_be_longer_than_the_words_beside_them() -> None:
    @tool(effect=ToolEffect.READ)
    def picture(n: int) -> Image:
        """Look at a picture."""
        return Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes([n]) * 9_000, "image/png")

    looks = [calls(("picture", {"n": n}), usage=Usage(input=300 * (n + 1))) for n in range(3)]
    builder = reader(*looks, "Done.", keep_steps=1, summarizer=wordy)
    ran = await run(builder.with_tools(picture).build())
    assert (ran.one(ConversationCompacted).problem, ran.result.output) == (None, "Done.")


async def test_another_model_writes_each_summary_and_is_closed_with_the_agent() -> None:
    closed = list[str]()

    class Open(ScriptedModel):
        async def close(self) -> None:
            closed.append(self.describe().model)

    writer = Open(["First.", "Second."], name="writer")
    script: list[Reply] = [*FOUR, page(4), page(5, 900), "Done."]
    agent = reader(*script, summarizer=writer).build()
    ran = await run(agent)
    assert [event.summary for event in ran.all(ConversationCompacted)] == ["First.", "Second."]
    assert "First." in writer.requests[1].messages[1].text
    assert "compaction 2" in str(ran.result.state.compacted)
    await close_models(agent)
    assert closed == ["writer"]


async def test_the_newest_message_of_the_user_stays_beside_the_input() -> None:
    agent, model = asked_of(reader(page(0), page(1), page(2), page(3), page(4, 900), "Pages.", "Done."))
    async with trail_of(reach=crash_at("before-tool", 2)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "Read all.", session="s")
        await again_on(trail).session("s").send(agent, "And count them.")
    assert told(model.requests[-1])[:3] == ["u The conv", "u Read all", "u And coun"]


async def test_the_next_execution_goes_on_from_the_summary_and_its_digests_are_those_of_the_log() -> None:
    agent, model = asked_of(reader(*FOUR, "Pages.", "Done.", "You are welcome."))
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        await trail.session("s").send(agent, "Thanks.")
        records = await trail.session("s").events()
        made = [each.event.request_digest for each in records if isinstance(each.event, InferenceStarted)]
        assert [digest for _, _, digest in recorded_requests("s", records)] == made
        assert len(set(made)) == len(made)
    assert told(model.requests[-1])[:2] == ["u The conv", "u Read all"]
    assert told(model.requests[-1])[-2:] == ["a Done.", "u Thanks."]


async def test_a_crash_asks_for_the_summary_again_and_another_process_goes_on_with_it() -> None:
    script: list[Reply] = [*FOUR, "Pages.", "Done."]
    for point, number in [("before-inference", 5), ("after-inference", 5), ("before-append", 9), ("after-append", 9)]:
        agent, model = asked_of(reader(*script))
        async with trail_of(reach=crash_at(point, number)) as trail:
            with pytest.raises(Crash):
                await trail.run(agent, "Read all.", session="s")
            later = again_on(trail)
            result = await later.session("s").resume(agent)
            assert result.output == "Done.", (point, number)
            events = [record.event for record in await later.session("s").events()]
            assert len([each for each in events if isinstance(each, ConversationCompacted)]) == 1, (point, number)
            assert told(model.requests[-1]) == ["u The conv", "u Read all", "a", "t page 2:", "a", "t page 3:"]


async def test_an_agent_that_compacts_no_more_goes_on_with_what_was_left_out() -> None:
    script: list[Reply] = [*FOUR, "Pages.", "Done."]
    agent, _ = asked_of(reader(*script))
    async with trail_of(reach=crash_at("before-inference", 6)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "Read all.", session="s")
        other, model = asked_of(reader(*script).with_compaction(None))
        result = await again_on(trail).session("s").resume(other)
        assert result.output == "Done."
        assert told(model.requests[-1])[0] == "u The conv"


async def test_a_summary_that_takes_too_long_ends_with_the_time_of_the_run() -> None:
    async def slow(messages: Sequence[Message]) -> str:
        await asyncio.sleep(3600)
        return str(len(messages))

    ran = await run(reader(*FOUR, "Never.", summarizer=slow).with_timeout(0.05).build())
    assert ran.ending == ("completed", "time_limit")
    event = ran.one(ConversationCompacted)
    assert (event.summary, event.deadline is not None) == (None, True)
    assert len(ran.all(StepStarted)) == 4


async def test_a_stop_cuts_a_summary_off_and_nothing_is_recorded_of_it() -> None:
    asked = asyncio.Event()

    async def never(messages: Sequence[Message]) -> str:
        del messages
        asked.set()
        await asyncio.sleep(3600)
        return ""

    limits = Limits(stop_grace=0.0)
    agent = reader(*FOUR, "Never.", summarizer=never).with_limits(limits).build()
    async with trail_of() as trail:
        at_work = asyncio.create_task(trail.run(agent, "go", session="s"))
        await asked.wait()
        await again_on(trail).session("s").stop(by="ana")
        result = await at_work
        assert result.stop_reason == "user_requested"
        events = [record.event for record in await trail.session("s").events()]
        assert not [each for each in events if isinstance(each, ConversationCompacted)]


async def test_a_caller_that_is_cancelled_leaves_the_summary_to_the_next_segment() -> None:
    asked, words = asyncio.Event(), ["", "Pages."]

    async def twice(messages: Sequence[Message]) -> str:
        del messages
        if word := words.pop():
            asked.set()
            await asyncio.sleep(3600)
        return word or "Pages."

    agent = reader(*FOUR, "Done.", summarizer=twice).build()
    async with trail_of() as trail:
        at_work = asyncio.create_task(trail.run(agent, "go", session="s"))
        await asked.wait()
        at_work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await at_work
        result = await trail.session("s").resume(agent)
        assert result.output == "Done."


async def test_a_replay_reads_the_summaries_from_the_log() -> None:
    asked = list[int]()

    def once(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        if len(asked) == 1:
            raise RuntimeError("not today")
        return "Pages."

    script: list[Reply] = [*FOUR, page(4, 900), "Done."]
    agent = reader(*script, summarizer=once).build()
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        recording = Recording("s", await trail.session("s").history())
    again = await replay(agent, recording)
    assert again.result.output == "Done."
    assert len(asked) == 2
    events = [record.event for record in again.records]
    assert [each for each in events if isinstance(each, ConversationCompacted)] == [
        each for each in recording.events if isinstance(each, ConversationCompacted)
    ]


def test_the_fingerprint_of_an_agent_names_its_compaction() -> None:
    def of(**changes: Any) -> str:
        return reader("x", **changes).build().snapshot.fingerprint

    assert len({of(), of(keep_steps=3), of(above=0.5), of(summarizer=awaited), of(clear_results_above=1)}) == 5
    assert of() == of()


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Compaction(above=0), "above"),
    (lambda: Compaction(above=1.1), "above"),
    (lambda: Compaction(above=float("nan")), "above"),
    (lambda: Compaction(window=0), "window"),
    (lambda: Compaction(window=cast("int", "200k")), "window"),
    (lambda: Compaction(keep_steps=0), "keep_steps"),
    (lambda: Compaction(clear_results_above=-1), "clear_results_above"),
    (lambda: Compaction(summarizer=cast("Any", "gpt-5")), "summarizer of a compaction: 'gpt-5' is no model"),
    (lambda: Compaction(summarizer=cast("Any", lambda: "x")), "summarizer of a compaction is called with"),
    (lambda: AgentBuilder("x").with_compaction(cast("Any", 0.8)), "with_compaction.*Compaction, not float"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED)
def test_a_compaction_that_cannot_be_is_refused_at_once(made: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made()


def test_a_model_that_is_told_to_compact_by_itself_is_not_compacted_twice() -> None:
    class Provider(ScriptedModel):
        def describe(self) -> ModelInfo:
            return ModelInfo(driver="messages", model="opus", parameters={"context_management": {"edits": []}})

    builder = AgentBuilder("x").with_model(Provider([])).with_compaction(Compaction())
    with pytest.raises(ConfigurationError, match="'opus' compacts by itself"):
        builder.build()


async def test_code_of_the_user_sees_what_a_model_is_shown_and_changes_only_its_own_copy() -> None:
    seen = list[list[str]]()

    def spoil(state: HookState) -> None:
        shown = [message for piece in state.request_messages for message in piece]
        seen.append([message.text[:10] for message in shown])
        for call_of in (part for message in shown for part in message.tool_calls):
            (call_of.arguments or {}).clear()

    builder = reader(*FOUR, page(4), "Done.", keep_steps=1, clear_results_above=2_000)
    agent, model = asked_of(builder.with_hook(HookType.BEFORE_STEP, hook("spoil", spoil)))
    await run(agent)
    assert seen[-1][:3] == ["go", "", "[result of"]
    assert all(part.arguments for message in model.requests[-1].messages for part in message.tool_calls)
    assert agent.snapshot.compaction is not None


async def test_a_function_that_changes_what_it_is_given_changes_only_its_own_copy() -> None:
    def spoil(messages: Sequence[Message]) -> str:
        calls_of = [part for message in messages for part in message.tool_calls]
        for each in calls_of:
            (each.arguments or {}).clear()
        return f"{len(calls_of)} calls"

    ran = await run(reader(*FOUR, "Done.", summarizer=spoil).build())
    assert ran.one(ConversationCompacted).summary == "2 calls"
    assert all(part.arguments for message in ran.result.state.messages for part in message.tool_calls)


async def test_a_session_from_a_snapshot_shows_the_same_as_one_that_was_read_whole() -> None:
    agent, model = asked_of(reader(*FOUR, "Pages.", "Done.", "Bye."))
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        state = (await trail.session("s").result()).state
        (line, *lines) = lines_of(state)
        again = SNAPSHOTS.load([line, *lines])
        assert [list(piece) for piece in again.request_messages] == [list(piece) for piece in state.request_messages]
        requests = Requests(), Requests()
        assert agent.snapshot == state.agent
        built = [each.build(which, agent.snapshot) for each, which in zip(requests, (state, again), strict=True)]
        assert requests[0].digest(built[0]) == requests[1].digest(built[1])
    assert len(model.requests) == 6
