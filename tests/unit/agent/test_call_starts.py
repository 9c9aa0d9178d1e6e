"""What the start of calls comes to: started, or ended before it has begun."""

import pytest
from msgspec import structs

from steptrail.domain.agent.call_starts import start_calls
from steptrail.domain.agent.events import ToolCallCancelled, ToolExecutionFailed, ToolExecutionStarted
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.digests import digest_of
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.testing.scenario import AgentScenario, given
from tests.unit.agent.story import agent, asked, cut_off, opened, running, step, wants

FIRST = structs.replace(running(), arguments_digest=digest_of({"n": 0}))
LOOK = ToolSpec(name="look", effect=ToolEffect.READ, max_calls=2)


def asking_for(*tools: str, limits: Limits | None = None) -> AgentScenario:
    return given(*opened(agent(LOOK, limits=limits)), *step(), asked(), wants(*tools))


def comes_to(scenario: AgentScenario, *positions: int, cut_by: CutBy | None = None) -> list[str]:
    """Return what becomes of each start, in words."""
    words: list[str] = []
    for event in start_calls(scenario.state, positions, cut_by=cut_by, now=int, unfit=lambda _: None):
        match event:
            case ToolExecutionStarted(attempt=attempt):
                words.append(f"started {attempt}")
            case ToolCallCancelled(reason=reason, over_the_limit=over):
                words.append(f"{reason}{' !' if over else ''}")
            case ToolExecutionFailed(error=error):
                words.append(error.message)
            case _:
                raise AssertionError(event)
    return words


def test_a_start_says_tool_effect_attempt_and_the_digest_of_its_arguments() -> None:
    scenario = asking_for("look", "look")
    (_, second) = scenario.state.tool_executions
    assert start_calls(scenario.state, (1,), cut_by=None, now=int, unfit=lambda _: None) == (
        ToolExecutionStarted(
            position=1,
            call_id="call-1",
            tool="look",
            effect_id="session:1:1:1",
            effect=ToolEffect.READ,
            attempt=1,
            arguments_digest=second.arguments_digest,
            read_settings=True,
        ),
    )


def test_starts_of_one_effect_are_counted_against_the_limits_one_after_the_other() -> None:
    of_it = "the run has made all of its 2 calls of look"
    assert comes_to(asking_for("look", "look", "look"), 0, 1, 2) == ["started 1", "started 1", of_it]
    at_all = "the run has made all of its 1 tool calls !"
    tight = asking_for("look", "look", limits=Limits(max_tool_calls=1))
    assert comes_to(tight, 0, 1) == ["started 1", at_all]
    shadow = asking_for("look", "look", limits=Limits(max_tool_calls=1, shadow=("max_tool_calls",)))
    assert comes_to(shadow, 0, 1) == ["started 1", "started 1"]


def test_a_call_that_there_is_no_tool_for_uses_up_no_limit() -> None:
    scenario = asking_for("nobody", "look", limits=Limits(max_tool_calls=1))
    assert comes_to(scenario, 0, 1) == ["there is no tool 'nobody'; the tools are: look", "started 1"]


def test_another_try_is_no_other_call() -> None:
    scenario = asking_for("look", limits=Limits(max_tool_calls=1)).and_(FIRST, cut_off(0, Then.RERUN))
    assert comes_to(scenario, 0) == ["started 2"]


@pytest.mark.parametrize(
    ("cut_by", "word"),
    [
        (CutBy.TIMEOUT, "the run's time is up"),
        (CutBy.CUMULATIVE_TIMEOUT, "the run's time is up"),
        (None, "started 1"),
    ],
)
def test_a_call_for_which_no_time_is_left_is_not_started(cut_by: CutBy | None, word: str) -> None:
    assert comes_to(asking_for("look"), 0, cut_by=cut_by) == [word]


def test_a_start_looks_at_the_arguments_of_what_starts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()

    def noted(value: JsonValue) -> str:
        looked.append(digest_of(value))
        return looked[-1]

    count = 20
    scenario = asking_for(*["look"] * count)
    for position in range(count):
        again = structs.replace(FIRST, position=position, arguments_digest=digest_of({"n": position}))
        scenario = scenario.and_(again, cut_off(position, Then.RERUN))
    monkeypatch.setattr("steptrail.domain.agent.step.digest_of", noted)
    assert len(start_calls(scenario.state, (7,), cut_by=None, now=int, unfit=lambda _: None)) == 1
    assert len(looked) < 5
