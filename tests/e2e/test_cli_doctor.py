"""`doctor` on stores that somebody has meddled with."""

from typing import Any

import pytest

from tests.e2e.cli import Cli
from tests.e2e.conftest import Stored
from tests.harness.hands import change_by_hand


@pytest.fixture
def stored(cli: Cli, kept: Stored) -> Cli:
    return kept.into(cli, *(["run", "agents.py", "hi", "--id", name] for name in ("s1", "s2")))


def meddle(cli: Cli, statement: str) -> None:
    change_by_hand(cli.folder / "steptrail.db", statement)


def found(cli: Cli) -> list[tuple[Any, ...]]:
    """Return the damage that is found: check, stream, position, type."""
    done = cli("doctor", "--json")
    assert (done.code, done.err) == (1, "")
    assert done.json["healthy"] is False
    return [(f["check"], f["stream"], f["position"], f["type"]) for f in done.json["findings"] if f["damage"]]


def test_given_a_sound_store_then_it_is_healthy(stored: Cli) -> None:
    done = stored("doctor")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[-2:] for line in done.lines[1:10]] == [["0", "0"]] * 9
    assert done.lines[-1].startswith("2 sessions, ")
    assert done.lines[-1].endswith(": healthy")


def test_given_a_record_that_cannot_be_read_then_its_session_position_and_type_are_named(stored: Cli) -> None:
    meddle(stored, "UPDATE stored_events SET state = x'00' WHERE stream = 'agent:s1' AND version = 5")
    assert found(stored) == [
        ("digest chain", "agent:s1", 1, None),
        ("records", "agent:s1", 5, "step.started.v1"),
    ]
    done = stored("doctor")
    assert done.code == 1
    (line,) = [line for line in done.lines if " records " in line and line.startswith("damage")]
    assert line.split()[:5] == ["damage", "records", "agent:s1", "5", "step.started.v1"]
    assert done.lines[-1].endswith(": damaged")


def test_given_a_commit_that_is_gone_from_the_end_then_its_events_are_named(stored: Cli) -> None:
    meddle(
        stored, "DELETE FROM commits WHERE version = (SELECT max(version) FROM commits WHERE stream = 1) AND stream = 1"
    )
    assert ("digest chain", "agent:s1") in [entry[:2] for entry in found(stored)]
    assert "belongs to no commit" in stored("doctor").out


def test_given_several_such_records_then_each_is_named(stored: Cli) -> None:
    statement = "UPDATE stored_events SET state = 'text' WHERE stream = 'agent:s2' AND version = "
    meddle(stored, statement + "4")
    meddle(stored, statement + "9")
    assert [entry[2] for entry in found(stored) if entry[0] == "records"] == [4, 9]


def test_given_an_unknown_type_then_it_is_named(stored: Cli) -> None:
    meddle(
        stored,
        "UPDATE stored_events SET type = 'step.danced.v1' WHERE stream = 'agent:s1' AND version = 5",
    )
    # By its name it may be of a newer version. That a hand wrote it shows in the digest.
    assert found(stored) == [("digest chain", "agent:s1", 1, None)]
    (line,) = [line for line in stored("doctor").lines if "step.danced.v1" in line]
    assert line.split()[:4] == ["attention", "versions", "agent:s1", "5"]


def test_given_a_changed_result_that_still_reads_then_the_digest_tells(stored: Cli) -> None:
    meddle(
        stored,
        "UPDATE stored_events SET content = CAST(REPLACE(CAST(content AS TEXT), '\"one\"', '\"two\"') AS BLOB) "
        "WHERE stream = 'agent:s1' AND type = 'tool.execution.completed.v1'",
    )
    assert [entry[:2] for entry in found(stored)] == [("digest chain", "agent:s1")]


def test_given_a_missing_event_then_its_version_is_named(stored: Cli) -> None:
    meddle(stored, "DELETE FROM stored_events WHERE stream = 'agent:s1' AND version = 5")
    assert ("gaps", "agent:s1", 5, None) in found(stored)


def test_given_a_session_without_its_first_event_then_it_is_still_seen(stored: Cli) -> None:
    meddle(stored, "DELETE FROM stored_events WHERE stream = 'agent:s1' AND version = 1")
    assert ("gaps", "agent:s1", 1, None) in found(stored)


def test_given_damage_in_one_session_then_reading_the_other_works_and_reading_it_says_what_to_do(stored: Cli) -> None:
    meddle(stored, "UPDATE stored_events SET state = x'00' WHERE stream = 'agent:s1' AND version = 5")
    assert stored("why", "s2").code == 0
    why = stored("why", "s1", "--json")
    assert (why.code, why.json["damage"][:29]) == (0, "record 5 of stream 'agent:s1'")
    # What came behind it nobody knows: a command that would run the session is refused.
    assert (why.json["crashed"], "crashed" in why.json["verdict"]) == (False, False)
    assert (why.json["next"].split()[:2], why.json["nextIsFor"]) == (["steptrail", "doctor"], None)
    refused = stored("show", "s1")
    assert refused.code == 2
    assert refused.err.startswith("steptrail: record 5 of stream 'agent:s1' (type 'step.started.v1') cannot be read")
    assert refused.err.endswith("`steptrail doctor` checks every session\n")


def test_given_damage_in_one_session_then_the_list_shows_it_among_the_others(stored: Cli) -> None:
    meddle(stored, "UPDATE stored_events SET state = x'00' WHERE stream = 'agent:s1' AND version = 2")
    assert stored("pause", "s1").code == 2  # somebody who writes to the store meets it
    listed = stored("runs", "--json")
    assert listed.code == 0
    damage = {row["sessionId"]: row["damage"] for row in listed.json}
    assert damage["s2"] is None
    assert damage["s1"].startswith("record 2 of stream 'agent:s1'")
    assert ", damaged" in next(line for line in stored("runs").lines if line.startswith("s1"))
