"""Scores in the read models: which runs have them, what they come to, and what SQL sees."""

from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError
from steptrail.interfaces.cli.main import main
from steptrail.projections.asking.filters import RunFilter, score_condition
from tests.views.kit import desk


@pytest.mark.acceptance("10.7-2")
async def test_runs_are_found_by_the_scores_that_count_and_counted_by_agent_and_name(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for name, tenant in (("a", "acme"), ("b", "acme"), ("c", "other"), ("d", "other")):
            await trail.run(desk("hello"), "hi", session=name, metadata={"tenant": tenant})
        a, b, c = (trail.session(name) for name in "abc")
        await a.score("helpful", 0.9, by="ana")
        await a.score("helpful", 0.1, by="ana")
        await a.score("helpful", 0.6, by="bob")
        await a.score("safe", True, by="bob")
        await b.score("helpful", 0.25, by="ana")
        await b.score("helpful", 1, by="ana", step=1)
        await b.score("tone", "formal", by="ana")
        await c.score("tone", "rude'; --", by="ana")

        async def found(*scores: str, agent: str | None = None) -> list[str]:
            page = await trail.views.runs(RunFilter(scores=scores, agent=agent))
            return sorted(row.stream.removeprefix("agent:") for row in page.rows)

        assert await found("helpful>=0.5") == ["a"]
        assert await found("helpful < 0.2", "safe=yes") == ["a"]
        assert await found("helpful") == await found("helpful<=0.9", agent="desk") == ["a", "b"]
        assert await found("helpful=0.25") == ["b"]
        assert await found("helpful>0.9") == await found("safe=no") == await found("other") == []
        assert (await found("tone=formal"), await found("tone=rude'; --")) == (["b"], ["c"])
        stats = {each.name: each for each in (await trail.views.stats()).scores}
        assert {name: (each.scores, each.mean, each.labels) for name, each in stats.items()} == {
            "helpful": (3, pytest.approx((0.1 + 0.6 + 0.25) / 3), {}),
            "safe": (1, 1.0, {}),
            "tone": (2, None, {"formal": 1, "rude'; --": 1}),
        }
        assert [each.name for each in (await trail.views.of("other").stats()).scores] == ["tone"]
        asked = "SELECT name, step, by, kind, value, label FROM scores ORDER BY execution, name, step, by"
        assert [*map(list, (await trail.views.sql(asked)).rows)][:4] == [
            ["helpful", 0, "ana", "number", 0.1, None],
            ["helpful", 0, "bob", "number", 0.6, None],
            ["safe", 0, "bob", "truth", 1.0, None],
            ["helpful", 0, "ana", "number", 0.25, None],
        ]
        await trail.erase("a", by="ana", reason="asked")
        assert await found("safe") == []
        answer = await trail.views.sql("SELECT count(*) FROM scores")
        assert answer.rows[0][0] == 4


async def test_a_score_does_not_let_an_open_run_take_longer(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.start(desk("hello"), "hi", session="a")
        (before,) = (await trail.views.runs()).rows
        await trail.session("a").score("helpful", 1, by="ana")
        assert (await trail.views.runs()).rows == [before]
        assert [row.stream for row in (await trail.views.runs(RunFilter(scores=["helpful"]))).rows] == ["agent:a"]


@pytest.mark.parametrize("text", ["", ">=1", "a>=", "a>=b", "a<nan", "a>=1>=2", "a>2000000", "a\nb"])
def test_what_is_no_condition_on_a_score_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="score"):
        score_condition(text)
    with pytest.raises(ConfigurationError, match="score"):
        RunFilter(scores=[text])


def test_the_command_line_scores_lists_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(store) as trail:
        trail.run(desk("hello"), "hi", session="tea-1")

    def said(*words: str, code: int = 0) -> str:
        assert main([*words, "--store", store]) == code
        told = capsys.readouterr()
        return told.out + told.err

    assert said("score", "tea", "helpful", "0.75", "--by", "ana", "--comment", "short and clear").strip() == (
        "tea-1: recorded"
    )
    said("score", "tea-1", "tone", "formal", "--by", "ana", "--step", "1")
    said("score", "tea-1", "safe", "yes", "--by", "ana")
    assert "tea-1" in said("runs", "--score", "safe=yes")
    assert "score       helpful = 0.75 by ana (short and clear)" in said("why", "tea-1")
    shown = said("show", "tea-1")
    assert "helpful" in shown
    assert "short and clear" in shown
    assert '"value": 0.75' in said("show", "tea-1", "--json")
    assert "session.scored.v1" in said("show", "tea-1", "--events")
    assert "tea-1" in said("runs", "--score", "helpful>=0.5")
    assert "tea-1" not in said("runs", "--score", "helpful>=0.8")
    assert "helpful  1      0.75" in said("stats")
    assert "it has no execution 2" in said("score", "tea-1", "helpful", "1", "--by", "ana", "--execution", "2", code=2)
    assert "is no condition on a score" in said("runs", "--score", ">=1", code=2)
