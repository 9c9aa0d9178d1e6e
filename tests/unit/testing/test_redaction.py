"""Values go by their keys wherever tools are told or tell something, and what is left is still a recording."""

from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.agent.events import (
    InferenceCompleted,
    InferenceStarted,
    ToolExecutionCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole, ToolCallPart, ToolResultPart
from steptrail.interfaces.python.recording import FlowRecording, Recording
from steptrail.interfaces.python.redaction import REDACTED, redact, redact_flow
from steptrail.projections import project_decisions
from steptrail.runtime.agent.request import recorded_requests
from steptrail.testing import ScriptedModel, normalise, replay
from steptrail.workflow import Artifact, Workflow
from tests.golden.record import STORIES
from tests.golden.streams import FOLDER, read
from tests.integration.replay.kit import story

KEYS = ("amount", "WHAT", "text")


def test_without_keys_a_recording_stays_as_it_is() -> None:
    recording = Recording("golden", read(FOLDER / "agent-v1-completed.jsonl"))
    assert redact(recording, []) is recording


def test_a_text_in_the_place_of_the_keys_is_refused_and_not_taken_for_its_letters() -> None:
    recording = Recording("golden", read(FOLDER / "agent-v1-completed.jsonl"))
    with pytest.raises(ConfigurationError, match="`keys` to redact: Expected a list, got `str`"):
        redact(recording, "token")
    wrong: Any = [7]
    with pytest.raises(ConfigurationError, match="a key to redact is a text, not int"):
        redact(recording, wrong)


LOG_IN: dict[str, JsonValue] = {"Token": "secret-1", "body": '{"token": "secret-4"}'}
SAID = (
    Message.user('{"token": "of a prompt"}'),
    Message(role=MessageRole.ASSISTANT, parts=(ToolCallPart(id="c-1", name="log_in", arguments=LOG_IN),)),
    Message(role=MessageRole.TOOL, parts=(ToolResultPart(call_id="c-1", name="log_in", text='{"token":"secret-2"}'),)),
)


async def test_the_calls_and_results_of_a_conversation_that_was_held_elsewhere_lose_them_too() -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "And?", session="s", history=SAID)
        redacted = redact(Recording("s", await trail.session("s").history()), ["token"])
    text = b"".join(redacted.lines()).decode()
    assert ("secret" in text, text.count(REDACTED), "of a prompt" in text) == (False, 3, True)
    assert normalise((await replay(agent, redacted)).events) == normalise(redacted.events)


async def test_a_run_of_a_workflow_loses_them_in_its_messages_and_its_artifacts() -> None:
    flow = Workflow("w").function("same", lambda seen: seen.input).build()
    made = Artifact(id="a", text="the text", meta={"token": "secret-3"})
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow, {}, session="s", messages=SAID, artifacts=[made])
        recording = FlowRecording("s", "w", await trail.flow("s").history())
    text = b"".join(redact_flow(recording, ["token"]).lines()).decode()
    assert ("secret" in text, text.count(REDACTED), "the text" in text) == (False, 4, True)


def with_result(recording: Recording, result: JsonValue, shown: int | None = None) -> Recording:
    return Recording(
        recording.session,
        [
            structs.replace(record, event=structs.replace(record.event, result=result, shown_characters=shown))
            if isinstance(record.event, ToolExecutionCompleted)
            else record
            for record in recording.records
        ],
    )


def results(recording: Recording) -> list[tuple[JsonValue, int | None]]:
    return [(e.result, e.shown_characters) for e in recording.events if isinstance(e, ToolExecutionCompleted)]


@pytest.mark.parametrize(
    ("result", "left"),
    [
        ({"Card": "4242", "state": "paid"}, {"Card": REDACTED, "state": "paid"}),
        ([{"deep": {"card": {"number": 1}}}], [{"deep": {"card": REDACTED}}]),
        ('{"card": "4242", "ä": 1}', '{"card": "[redacted]", "ä": 1}'),
        ('{"c\\u0061rd": "4242", "half": "\\ud800"}', '{"card": "[redacted]", "half": "?"}'),
        ('{"card": "4242", "id": 123456789012345678901}', '{"card": "[redacted]", "id": 123456789012345678901}'),
        ('{"card": "4242", "n": ' + "[" * 990 + "]" * 990 + "}", REDACTED),
        ('{"card": "4242", "n": ' + "[" * 5_000 + "]" * 5_000 + "}", REDACTED),
        ('{"card": "4242", "n": ' + "1" * 5_000 + "}", REDACTED),
        ([{"text": '{"n": ["{\\"card\\": 4242}"]}'}], [{"text": '{"n": ["{\\"card\\": \\"[redacted]\\"}"]}'}]),
        ("the card is 4242", "the card is 4242"),
        (["card"], ["card"]),
        (None, None),
    ],
)
def test_a_result_loses_the_values_of_the_keys_however_deep(result: JsonValue, left: JsonValue) -> None:
    recording = with_result(Recording("golden", read(FOLDER / "agent-v1-completed.jsonl")), result)
    assert {repr(each) for each, _ in results(redact(recording, ["card"]))} == {repr(left)}


def test_a_result_that_is_short_now_is_shown_whole() -> None:
    recording = with_result(
        Recording("golden", read(FOLDER / "agent-v1-completed.jsonl")), {"card": "4" * 100}, shown=50
    )
    assert {shown for _, shown in results(redact(recording, ["card"]))} == {None}
    assert {shown for _, shown in results(redact(recording, ["other"]))} == {50}


@pytest.mark.parametrize("name", ["completed", "approved", "crashed-and-resumed", "suspended"])
def test_digests_are_those_of_what_is_left(name: str) -> None:
    recording = redact(Recording("golden", read(FOLDER / f"agent-v1-{name}.jsonl")), KEYS)
    rebuilt = {index: digest for index, _, digest in recorded_requests("golden", recording.records)}
    started = {i: e.request_digest for i, e in enumerate(recording.events) if isinstance(e, InferenceStarted)}
    assert rebuilt == started

    calls = [part for e in recording.events if isinstance(e, InferenceCompleted) for part in e.reply.parts]
    asked = [ToolExecution(position=0, call=part).arguments_digest for part in calls if isinstance(part, ToolCallPart)]
    ran = {e.arguments_digest for e in recording.events if isinstance(e, ToolExecutionStarted)}
    assert ran <= {*asked, ToolExecution(position=0, call=edited()).arguments_digest}
    assert recording.redacted == ("WHAT", "amount", "text")


def edited() -> ToolCallPart:
    """What somebody edited the arguments of an approval to, as far as that is left."""
    return ToolCallPart(id="", name="", arguments={"amount": REDACTED})


@pytest.mark.parametrize("name", STORIES)
async def test_a_redacted_recording_is_replayed_like_any_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, recording = await story(name, monkeypatch)
    redacted = redact(recording, KEYS)
    again = await replay(agent, redacted)
    assert normalise(again.events) == normalise(redacted.events)
    assert [row[1:] for row in again.decisions] == [row[1:] for row in project_decisions(recording.records).decisions]
