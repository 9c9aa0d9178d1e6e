"""Another agent answers what recorded sessions were asked, judges compare, and nothing is paid twice."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from steptrail import Agent, AgentBuilder, Message, RunResult, Steptrail, ToolEffect, tool
from steptrail.errors import ConfigurationError
from steptrail.evals import Score, compare, compare_blocking
from steptrail.messages import File
from steptrail.models import ModelReply, ModelRequest, PriceTable
from steptrail.testing import ScriptedModel, call, say
from tests.runner.kit import again_on, crash_at, trail_of
from tests.trail.workers import opened

Result = RunResult[Any]


class Told(ScriptedModel):
    """A model that answers with what it is asked, in its own way, and counts how often it was asked."""

    def __init__(self, way: str = "{}") -> None:
        super().__init__([])
        self.way, self.asked = way, list[str]()

    async def infer(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request.messages[-1].text)
        return say(self.way.format(self.asked[-1]))


def agent(way: str = "{}", prompt: str = "Be brief.") -> tuple[Agent, Told]:
    model = Told(way)
    return AgentBuilder("desk").with_model(model).with_system_prompt(prompt).build(), model


def longer(original: Result, candidate: Result) -> bool:
    assert isinstance(original.output, str)
    assert isinstance(candidate.output, str)
    return len(candidate.output) > len(original.output)


async def polite(original: Result, candidate: Result) -> Score:
    await asyncio.sleep(0)
    return Score(0.5 if original.output == "two" else 0.25, "not quite")


def says(answer: Any) -> Callable[[Result, Result], Any]:
    return lambda original, candidate: answer


async def recorded(trail: Steptrail, *texts: str, **more: Any) -> None:
    first, _ = agent()
    for text in texts:
        await trail.run(first, text, session=f"s-{text}", **more)


async def test_a_comparison_says_for_each_judge_who_won_and_records_the_scores(store_url: str) -> None:
    async with opened(store_url) as trail:
        await recorded(trail, "one", "two", metadata={"tenant": "acme", "tags": {"user": "u7"}})
        await trail.session("s-one").send(agent()[0], "and more")
        new, model = agent("Well, {}!", "Be polite.")
        sessions = [trail.session("s-one"), trail.session("s-two"), trail.session("s-two")]
        found = await compare(new, sessions, [longer, polite], by="nightly")
        assert sorted(model.asked) == ["one", "two"]
        assert str(found.judges["longer"]) == "longer: 2 won, 0 even, 0 lost, mean 1"
        assert str(found.judges["polite"]) == "polite: 0 won, 1 even, 1 lost, mean 0.375"
        assert (found.original.runs, found.candidate.runs, found.candidate.steps) == (2, 2, 2)
        one = found.pairs[0]
        assert one.original is not None
        assert one.candidate is not None
        assert (one.session, one.original.execution, one.problems) == ("s-one", "s-one:1", {})
        session = trail.session(one.candidate.session)
        assert [str(each) for each in await session.scores()] == [
            "longer = yes by nightly",
            "polite = 0.25 by nightly (not quite)",
        ]
        assert await trail.session("s-one").scores() == []
        # Who may see the recorded session, and has it erased, finds this one too.
        metadata = {"tenant": "acme", "tags": {"user": "u7"}, "compared_with": "s-one"}
        assert (await session.state()).metadata == metadata
        assert "s-one -> compare-" in str(found)
        assert found.to_dict()["judges"]


async def test_the_same_comparison_again_asks_no_model_and_no_judge(store_url: str) -> None:
    asked = list[str]()

    def counted(original: Result, candidate: Result) -> float:
        asked.append(candidate.session_id)
        return 1.0

    async with opened(store_url) as trail:
        await recorded(trail, "one", "two")
        new, model = agent("Well, {}!")
        judge_model = Told("yes")
        referee = AgentBuilder("referee").with_model(judge_model).build()
        sessions = [trail.session("s-one"), trail.session("s-two")]
        first = await compare(new, sessions, {"counted": counted, "referee": referee})
        assert await compare(new, sessions, {"counted": counted, "referee": referee}) == first
        assert (len(model.asked), len(asked), len(judge_model.asked)) == (2, 2, 2)
        assert (first.judges["referee"].labels, first.judging.runs) == ({"yes": 2}, 2)
        other = await compare(new, sessions, [counted], name="again")
        assert (len(model.asked), len(asked)) == (4, 4)
        compared = {each.candidate.session for each in (*first.pairs, *other.pairs) if each.candidate is not None}
        assert compared == {*asked}


LAST = 4


@pytest.mark.acceptance("10.7-3")
@pytest.mark.parametrize("number", range(1, LAST + 1))
async def test_a_comparison_that_was_killed_goes_on_where_it_was(number: int) -> None:
    async with trail_of() as trail:
        await recorded(trail, "one")
        new, model = agent("Well, {}!")
        asked = list[str]()

        def counted(original: Result, candidate: Result) -> bool:
            asked.append(candidate.session_id)
            return True

        dying = again_on(trail, reach=crash_at("after-append", number))
        with pytest.raises(BaseExceptionGroup) if number < LAST else nullcontext():
            await compare(new, [dying.session("s-one")], [counted])
        found = await compare(new, [trail.session("s-one")], [counted])
        assert (found.judges["counted"].wins, found.pairs[0].problems) == (1, {})
        assert len(model.asked) <= 2
        assert len(await trail.session(asked[0]).scores(history=True)) == 1


async def test_a_judge_that_raises_is_told_and_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(original: Result, candidate: Result) -> bool:
        raise LookupError("no opinion")

    async def left(original: Result, candidate: Result) -> bool:
        raise asyncio.CancelledError

    judges: dict[str, Any] = {
        "broken": broken,
        "left": left,
        "nothing": says(None),
        "nan": says(float("nan")),
        "longer": longer,
    }
    async with trail_of() as trail:
        await recorded(trail, "one")
        new, _ = agent("Well, {}!")
        with caplog.at_level(logging.WARNING, "steptrail.evals"):
            found = await compare(new, [trail.session("s-one")], judges)
        (pair,) = found.pairs
        assert list(pair.problems) == ["broken", "left", "nothing", "nan"]
        assert pair.problems["broken"] == "LookupError: no opinion"
        assert [each.failed for each in found.judges.values()] == [1, 1, 1, 1, 0]
        assert found.judges["longer"].wins == 1
        assert "judge broken failed on session compare-" in caplog.text
        assert 'raise LookupError("no opinion")' in caplog.text


async def test_what_cannot_be_compared_is_told_and_the_rest_goes_on() -> None:
    @tool(effect=ToolEffect.READ, approval=True)
    def look() -> str:
        """Look."""
        return ""

    async with trail_of() as trail:
        await recorded(trail, "one", "two")
        await trail.session("s-one").fork(session="forked")
        await trail.start(agent()[0], "three", session="begun")
        new, _ = agent("Well, {}!")
        names = ("forked", "begun", "absent", "s-two")
        found = await compare(new, [trail.session(name) for name in names], [longer], at_once=1)
        said = {pair.session: pair.problems.get("", "") for pair in found.pairs}
        assert said["forked"] == "it goes on from s-one, which can be compared"
        assert said["begun"] == "execution 1 is pending and has not ended"
        assert "absent" in said["absent"]
        asking = AgentBuilder("desk").with_model(ScriptedModel([call("look")])).with_tools(look).build()
        (pair,) = (await compare(asking, [trail.session("s-two")], [longer])).pairs
        assert "not stopped: waiting after 0 steps for somebody to approve look" in pair.problems[""]
        assert (said["s-two"], found.judges["longer"].wins, found.original.runs) == ("", 1, 1)


async def test_a_retried_run_is_compared_by_its_newest_retry_and_what_it_began_with_comes_along() -> None:
    async with trail_of() as trail:
        failing = AgentBuilder("desk").with_model(ScriptedModel([TimeoutError("no")])).build()
        before = [Message.user("hello"), Message.assistant("hi")]
        file = File.from_bytes(b"a,b", "text/csv", name="a.csv")
        await trail.run(failing, Message.user("one", file), session="s", history=before)
        await trail.session("s").retry(agent("answer {}")[0])
        new, model = agent("Well, {}!", "Be polite.")
        (pair,) = (await compare(new, [trail.session("s")], [longer])).pairs
        assert pair.problems == {}
        assert pair.original is not None
        assert pair.candidate is not None
        assert (pair.original.execution, pair.original.status) == ("s:2", "completed")
        state = await trail.session(pair.candidate.session).state()
        assert [message.text for message in state.messages] == ["hello", "hi", "one", model.way.format("one")]
        assert (await trail.session(pair.candidate.session).file(file.digest)).data == b"a,b"


def test_an_agent_that_would_do_once_more_what_counts_only_once_is_refused(tmp_path: Path) -> None:
    @tool(effect=ToolEffect.KEYED)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    new = AgentBuilder("desk").with_model(Told("Well, {}!")).with_tools(pay).build()
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        trail.run(agent()[0], "one", session="s")
        sessions = [trail.session("s")]
        with pytest.raises(ConfigurationError, match="tool 'pay' of agent 'desk' is keyed, and a comparison would run"):
            compare_blocking(new, sessions, [longer])
        assert compare_blocking(new, sessions, [longer], repeats_effects=True).judges["longer"].wins == 1
        wrong: list[Any] = [[], [longer, longer], ["longer"], [says(True)], {"a>b": longer}, {"few": lambda: True}]
        for judges in wrong:
            with pytest.raises(ConfigurationError):
                compare_blocking(new, sessions, judges, repeats_effects=True)


async def test_what_is_no_session_is_refused() -> None:
    wrong: Any = ["s-one"]
    with pytest.raises(ConfigurationError, match="a session to compare"):
        await compare(agent()[0], wrong, [longer])


async def test_a_score_is_of_the_answer_that_was_compared() -> None:
    async with trail_of() as trail:
        await recorded(trail, "one")
        new = AgentBuilder("desk").with_model(Told("Well, {}!")).build()
        (pair,) = (await compare(new, [trail.session("s-one")], [longer])).pairs
        assert pair.candidate is not None
        candidate = trail.session(pair.candidate.session)
        await candidate.score("longer", 0.25, by="compare", execution=1)
        await candidate.send(new, "And now?")
        await candidate.score("longer", 0.75, by="compare", execution=2)
        (again,) = (await compare(new, [trail.session("s-one")], [longer])).pairs
        assert pair.scores["longer"].value is True
        assert (again.candidate, again.scores["longer"].value) == (pair.candidate, 0.25)


async def test_costs_are_told_of_both_sides() -> None:
    prices = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
    async with trail_of() as trail:
        await recorded(trail, "one")
        new = AgentBuilder("desk").with_model(Told("Well, {}!")).with_prices(prices).build()
        found = await compare(new, [trail.session("s-one")], [longer])
        assert (found.original.unpriced, found.candidate.unpriced) == (1, 0)
        assert found.candidate.cost_usd > 0


async def test_a_judge_may_be_an_agent_that_answers_in_a_type() -> None:
    model = Told('{{"value": true, "comment": "kinder"}}')
    referee = AgentBuilder("kinder").with_model(model).with_output(Score).build()
    silent = AgentBuilder("silent").with_model(ScriptedModel([TimeoutError("no")])).build()
    async with trail_of() as trail:
        await recorded(trail, "one")
        found = await compare(agent("Well, {}!")[0], [trail.session("s-one")], [referee, silent])
        (pair,) = found.pairs
        assert pair.scores == {"kinder": Score(True, "kinder")}
        assert model.asked == [
            "<input>\none\n</input>\n\n<original>\none\n</original>\n\n<candidate>\nWell, one!\n</candidate>"
        ]
        assert (found.judging.runs, found.judging.tokens) == (2, pair.judging[0].tokens)
        assert list(pair.problems) == ["silent"]
