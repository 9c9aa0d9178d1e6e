"""Failures that are alike are one group: which they are is written down, with their order and their signatures.

A signature is in links, in saved filters and in what people have told each other, so it may not change by chance. The
golden file is written anew with `STEPTRAIL_WRITE_GOLDEN=1`, for a change that is meant.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, tool
from steptrail.interfaces.cli.main import main
from steptrail.projections.asking.stats import FailureGroup
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Envelope, RetryPolicy, Workflow

GOLDEN = Path(__file__).parents[1] / "golden" / "failure_groups.txt"

FAILURES: Sequence[tuple[str, str, int]] = (
    ("KeyError", "order-{n}", 3),
    ("ValueError", "order {n} of 'Ana {n}' costs {n}.50 USD and not 7", 2),
    ("ValueError", "the address \u00fcber {n}@example.com is wrong", 2),
    ("TimeoutError", "no answer from https://example.com/{n} within {n} s", 4),
    ("ConnectionError", "", 1),
    ("RuntimeError", "session 0123456789abcdef{n}: it's a pity, <b>really</b>", 2),
    ("RuntimeError", "can't read `{n}`\nin line {n}", 1),
    ("PermissionError", "you may not", 2),
)
"""Class of an error, its message, and how many runs fail with it, each with another number."""


@tool
def burn(kind: str, message: str) -> str:
    """Fail as it is told."""
    errors: dict[str, type[Exception]] = {
        each.__name__: each
        for each in (KeyError, ValueError, TimeoutError, ConnectionError, RuntimeError, PermissionError)
    }
    raise errors[kind](message)


async def fail(trail: Steptrail) -> None:
    """Run what fails, so often as it is told, one after the other."""
    for place, (kind, message, times) in enumerate(FAILURES):
        for number in range(times):
            script = [call("burn", kind=kind, message=message.format(n=100 + number)), "no"]
            agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(burn)
            agent = agent.with_error_policy(ErrorPolicy.stop_on_any_error())
            await trail.run(agent.build(), "Go", session=f"f-{place}-{number}")


def line(group: FailureGroup) -> str:
    counts = f"{group.runs} {group.calls} {group.retried}"
    what = f"{group.error_class} ({group.error_type}) in {group.tool}: {group.template}"
    return f"{group.signature}  {counts}  {group.sample}  {what}\n"


async def test_groups_their_order_and_their_signatures_are_as_they_are_written_down(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await fail(trail)
        groups = list(await trail.views.failures())
        found = "".join(map(line, groups))
        await trail.views.rebuild()
        assert "".join(map(line, await trail.views.failures(fresh=None))) == found
        assert "".join(map(line, (await trail.views.stats()).failures)) == found
    if os.environ.get("STEPTRAIL_WRITE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
    assert len(groups) == len(FAILURES)
    assert sorted((-each.runs, -each.calls, -each.retried, each.signature) for each in groups) == [
        (-each.runs, -each.calls, -each.retried, each.signature) for each in groups
    ]


async def test_a_command_shows_the_first_groups_and_says_how_many_more_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await fail(trail)
        expected = [each.signature for each in await trail.views.failures()]
    for limit, shown in ((3, 3), (8, 8), (10, 8)):
        assert await asyncio.to_thread(main, ["stats", "--limit", str(limit), "--store", url]) == 0
        said = capsys.readouterr()
        table = said.out.partition("FAILURE ")[2].partition("\n\n")[0].splitlines()[1:]
        assert [row.split()[0] for row in table] == expected[:shown]
        assert ("5 rows more: `--limit` shows them" in said.err) == (limit == 3)


async def test_a_failure_after_which_a_node_was_only_tried_again_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, tries = f"sqlite:///{tmp_path / 'runs.db'}", iter([ConnectionError("away"), None])

    def ask(_: Envelope) -> None:
        if (error := next(tries)) is not None:
            raise error

    async with Steptrail.open(url) as trail:
        await trail.run(Workflow("w").function("ask", ask, retry=RetryPolicy(max_attempts=2, backoff=0)).build())
    assert await asyncio.to_thread(main, ["stats", "--store", url]) == 0
    heads, row = capsys.readouterr().out.partition("FAILURE ")[2].partition("\n\n")[0].splitlines()
    assert [" ".join(heads.split()[:4]), *row.split()[1:4]] == ["RUNS CALLS TRIED AGAIN", "0", "0", "1"]
