"""A stream is looked through while others go on with it, and after hands have changed what is left of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.hands import change_by_hand
from tests.harness.postgres_server import PostgresServer
from tests.harness.store_moments import with_moments


@pytest.fixture(params=["sqlite", "postgres"])
def by_hand(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[str], None]]:
    """The address of a store, and a function that runs a statement on it; `{}` stands for the schema of its tables."""
    if request.param == "sqlite":
        path = tmp_path / "runs.db"
        return f"sqlite:///{path}", lambda statement: change_by_hand(path, statement.format(""))
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database: str = request.getfixturevalue("postgres_database")

    def change(statement: str) -> None:
        server.execute(statement.format("steptrail."), database=database)

    return server.url(database), change


async def test_given_a_session_that_is_erased_while_it_is_verified_then_nothing_is_wrong_with_it(
    store_url: str,
) -> None:
    eraser = open_store(store_url)
    await eraser.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="a"), Noted()))

    def erase(what: str) -> None:
        if what == "select_chain" and eraser.recorder.select_erasure("agent:a") is None:
            eraser.recorder.erase({"agent:a": 2}, 1, "ana", "test")

    store = with_moments(open_store(store_url), erase)
    assert await store.verify("agent:a") is None
    assert await store.erasure("agent:a") is not None
    assert await store.verify("agent:a") is None
    await store.close()
    await eraser.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {}erasures SET by = 'ben'",
        "UPDATE {}erasures SET at = at + 1",
        "UPDATE {}erasures SET position = position + 1",
        "DELETE FROM {}events",
    ],
)
async def test_given_an_erasure_that_was_changed_by_hand_then_what_is_left_of_the_session_is_wrong(
    statement: str, by_hand: tuple[str, Callable[[str], None]]
) -> None:
    url, change = by_hand
    store = open_store(url)
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="a"), Noted()))
    store.recorder.erase({"agent:a": 2}, 1, "ana", "test")
    assert await store.verify("agent:a") is None
    change(statement)
    fault = await store.verify("agent:a")
    assert fault is not None
    assert fault.version == 3
    await store.close()


@pytest.mark.parametrize("value", ["digest = 'x'", "at = 'x'", "by = x'00'", "events = -1"])
async def test_given_an_erasure_with_a_value_of_the_wrong_type_then_it_is_named_and_all_others_are_looked_at(
    value: str, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    for name in ("agent:a", "agent:b"):
        await store.append(name, EMPTY_STREAM, commit_of("c1", Noted(text="a")))
    store.recorder.erase({"agent:a": 1}, 1, "ana", "test")
    change_by_hand(tmp_path / "runs.db", f"UPDATE erasures SET {value}")  # noqa: S608 - a text of ours
    seen = await examine(store)
    assert seen.streams == 1
    (said,) = (finding.what for finding in seen.findings if finding.stream == "agent:a")
    assert "erasures holds a value of the wrong type" in said
    await store.close()
