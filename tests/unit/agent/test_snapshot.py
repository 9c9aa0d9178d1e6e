"""A state as lines: what is in them, when they are read, and which are refused."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.snapshot import FORMAT, SNAPSHOTS
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.log import Log
from tests.golden.streams import FOLDER, folds, read

COMPLETED = FOLDER / "agent-v1-completed.jsonl"


@pytest.fixture(scope="module")
def state() -> AgentState:
    return evolve_all(initial("golden"), read(COMPLETED))


def test_messages_and_steps_are_read_when_somebody_looks_at_them(state: AgentState) -> None:
    counts, fold, *lines = SNAPSHOTS.dump(state)
    lines[0] = b"damaged"
    loaded = SNAPSHOTS.load([counts, fold, *lines])
    assert len(loaded.messages) == len(state.messages)
    assert loaded.messages[1] == state.messages[1]
    assert loaded.messages[-1] is loaded.messages[-1]
    assert loaded.steps[1:] == state.steps[1:]
    with pytest.raises(ValueError, match="malformed"):
        loaded.messages[0]


class Gone(list[bytes]):
    """Lines that say how often somebody has gone through them."""

    times = 0

    def __iter__(self) -> Iterator[bytes]:
        self.times += 1
        return super().__iter__()


def test_the_lines_of_steps_are_passed_over_until_somebody_looks_at_a_step(state: AgentState) -> None:
    lines = Gone(SNAPSHOTS.dump(state))
    loaded = SNAPSHOTS.load(lines)
    fold = loaded.fold.copied()
    assert fold.execution is not None
    fold.execution.steps = fold.execution.steps.appended(state.steps[0])
    assert (len(loaded.steps), list(loaded.messages), fold.execution.steps.last) == (
        2,
        list(state.messages),
        state.steps[0],
    )
    assert lines.times == 1
    assert (loaded.steps[1], loaded.steps[0]) == (state.steps[1], state.steps[0])
    assert loaded.steps[0] is loaded.steps[0]
    assert [*fold.execution.steps] == [*state.steps, state.steps[0]]
    assert SNAPSHOTS.dump(loaded) == lines
    assert lines.times == 2


def test_what_a_step_and_its_messages_say_is_written_once(state: AgentState) -> None:
    _, _, *lines = SNAPSHOTS.dump(state)
    assert ["role" in plain for plain in map(orjson.loads, lines)] == [True] * 5 + [False] * 2
    text = b"\n".join(lines)
    assert [text.count(said) for said in (b"Let me see.", b'{"amount":7}', b'"paid 7"')] == [1, 1, 1]


def test_a_step_that_says_something_else_than_its_messages_is_written_whole(state: AgentState) -> None:
    first, *_ = state.steps
    assert first.reply is not None
    call, *calls = first.tool_executions
    for changed in (
        replace(first, tool_executions=(replace(call, call=replace(call.call, arguments={"by": "hand"})), *calls)),
        replace(first, tool_executions=(replace(call, text="not what the model was shown"), *calls)),
        replace(first, tool_executions=(replace(call, result=None), *calls)),
        replace(first, reply=replace(first.reply, parts=()), tool_executions=()),
        replace(first, reply=None),
    ):
        fold = state.fold.copied()
        assert fold.execution is not None
        fold.execution.steps = Log([changed])
        loaded = SNAPSHOTS.load(SNAPSHOTS.dump(AgentState(fold, as_of=state.as_of)))
        assert list(loaded.steps) == [changed]


@pytest.mark.parametrize("stream", sorted(FOLDER.glob("*.jsonl")), ids=lambda stream: stream.stem)
def test_every_state_on_the_way_comes_back(stream: Path) -> None:
    state = initial(stream.stem)
    for record in read(stream):
        state = evolve_all(state, [record])
        loaded = SNAPSHOTS.load(SNAPSHOTS.dump(state))
        assert loaded == state
        assert (list(loaded.messages), list(loaded.steps)) == (list(state.messages), list(state.steps))


def test_messages_go_out_as_they_came_in_and_are_not_read_for_it(state: AgentState) -> None:
    counts, fold, first, *lines = SNAPSHOTS.dump(state)
    damaged = [counts, fold, b"damaged", *lines]
    loaded = SNAPSHOTS.load(damaged)
    assert loaded.messages[1] == state.messages[1]
    assert SNAPSHOTS.dump(loaded) == damaged
    of_messages = [line for line in lines if b'"role"' in line[:10]]
    assert [*loaded.fold.messages.encoded(1, msgspec.json.encode)] == of_messages
    assert next(state.fold.messages.encoded(0, msgspec.json.encode)) == first


def test_two_ways_to_go_on_from_one_loaded_state_do_not_meet(state: AgentState) -> None:
    records = read(COMPLETED)
    early = SNAPSHOTS.load(SNAPSHOTS.dump(evolve_all(initial("golden"), records[:12])))
    assert evolve_all(early, records[12:]) == evolve_all(early, records[12:]) == state
    assert early == evolve_all(initial("golden"), records[:12])


@pytest.mark.parametrize("lines", [[], [b"[0,0,[],[]]"], [b"", b""], [b"[9,9,[],[]]", b"{}"]])
def test_what_is_no_state_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SNAPSHOTS.load(lines)


@pytest.mark.parametrize("line", [0, 1])
def test_a_state_with_a_damaged_line_is_refused(state: AgentState, line: int) -> None:
    lines = SNAPSHOTS.dump(state)
    for damage in (b"", b"null", lines[line][:-1], lines[line][1:], lines[1 - line]):
        with pytest.raises(ValueError, match=r".+"):
            SNAPSHOTS.load([*lines[:line], damage, *lines[line + 1 :]])


def test_a_state_that_lost_a_line_is_refused(state: AgentState) -> None:
    with pytest.raises(ValueError, match="of 5 messages and 2 steps has lines for 5 and 1"):
        SNAPSHOTS.load(SNAPSHOTS.dump(state)[:-1])


def test_what_the_golden_streams_fold_to_is_what_the_format_stands_for() -> None:
    recorded = FOLDER / "folds" / f"{FORMAT}.json"
    why = (
        f"events fold to something else, or a state has another shape, than when {FORMAT!r} was recorded: snapshots "
        "that are out there hold the old one. Raise FORMAT in domain/agent/snapshot.py and run `python -m "
        "tests.golden.record`"
    )
    assert recorded.exists(), why
    assert folds() == orjson.loads(recorded.read_bytes()), why
