"""How each database answers the questions about runs: as it is written down, and without looking at every run.

Written anew with `STEPTRAIL_WRITE_PLANS=1`, for a change that is meant.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from steptrail.projections.runs_view.tables import EXECUTIONS, INFERENCES, STEPS, TAGS, TOOL_CALLS, TRIES, VISITS
from tests.harness.asked_questions import SCANS, asked_questions
from tests.harness.asked_views import AskedViews

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
_RUNS = 1_000
_BIG = ("e", *(table.name for table in (EXECUTIONS, TOOL_CALLS, STEPS, INFERENCES, VISITS, TRIES, TAGS)))


def plans(asked: AskedViews) -> Mapping[str, Sequence[str]]:
    """Return the lines of the plan of each question, those of its statements one below the other."""
    questions = asked_questions(_RUNS)
    return {name: [line for each in questions[name] for line in asked.plan(each)] for name in sorted(questions)}


def as_text(found: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(line for name, plan in found.items() for line in (name, *(f"    {each}" for each in plan))) + "\n"


def scanned(plan: Sequence[str]) -> Iterator[str]:
    """Yield the large tables that a plan of SQLite goes through from one end to the other, and sorts or filters."""
    for line in plan:
        found = re.fullmatch(r"SCAN (\S+)( USING COVERING INDEX .*)?", line)
        if found and found[1] in _BIG:
            yield found[1]


@pytest.fixture(scope="module")
def of_file(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    asked = AskedViews(f"sqlite:///{tmp_path_factory.mktemp('plans') / 'runs.db'}", _RUNS, of=_RUNS)
    try:
        return plans(asked)
    finally:
        asked.close()


def accesses(plan: Sequence[str]) -> Sequence[str]:
    """Return how a plan of a server gets at rows, without what changes when it has tidied up, or with its version."""
    index, table = (
        re.compile(r"Index (?:Only )?Scan(?: Backward)? (?:using|on) (\S+)"),
        re.compile(r"Seq Scan on (\S+)"),
    )
    return sorted(
        {f"index {found[1]}" for line in plan if (found := index.search(line))}
        | {f"all of {found[1]}" for line in plan if (found := table.search(line))}
    )


def check(name: str, found: Mapping[str, Sequence[str]]) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("STEPTRAIL_WRITE_PLANS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(as_text(found), encoding="utf-8")
    assert as_text(found) == path.read_text(encoding="utf-8")


@pytest.mark.acceptance("8.2-3")
def test_no_question_about_few_runs_looks_at_all_of_them(of_file: Mapping[str, Sequence[str]]) -> None:
    assert of_file.keys() >= SCANS
    in_key_order = re.compile(r"runs: all, (newest|oldest)")
    looked_at = {name for name, plan in of_file.items() if [*scanned(plan)] and not in_key_order.fullmatch(name)}
    assert looked_at == SCANS


def test_a_file_answers_each_question_as_it_is_written_down(of_file: Mapping[str, Sequence[str]]) -> None:
    check("sqlite", of_file)


async def test_a_server_answers_each_question_as_it_is_written_down(postgres_url: str) -> None:
    def found() -> Mapping[str, Sequence[str]]:
        asked = AskedViews(postgres_url, _RUNS, of=_RUNS)
        try:
            return {name: accesses(plan) for name, plan in plans(asked).items()}
        finally:
            asked.close()

    check("postgres", await asyncio.to_thread(found))
