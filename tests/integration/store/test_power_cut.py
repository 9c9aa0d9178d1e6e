"""A power cut, or a kill, while a store is made leaves a file that opens. `make power-cut` goes through whole runs."""

from pathlib import Path

import pytest

from tests.harness.power_cut import Op, State, states
from tests.harness.power_cut_audit import Audit, making, record_run, run_audit


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Op]]:
    folder = tmp_path_factory.mktemp("power-cut") / "run"
    return folder, record_run(folder, "full")


def test_every_state_that_making_a_store_may_leave_opens_and_is_written_to(
    ops: tuple[Path, list[Op]], tmp_path: Path
) -> None:
    made = making(ops[1])
    assert sum(op.kind == "write" for op in made) >= 15
    audit, complaints = run_audit(ops[0] / "runs.db", states(made, thorough=True), tmp_path / "left")
    assert complaints == []
    assert audit.states > 100


def test_what_somebody_was_told_is_stored_is_in_every_state_that_a_run_may_leave(
    ops: tuple[Path, list[Op]], tmp_path: Path
) -> None:
    left = list(states(ops[1]))
    assert left[-1].said
    audit, complaints = run_audit(ops[0] / "runs.db", left[:: len(left) // 60], tmp_path / "left")
    assert complaints == []
    assert audit.states >= 60


def test_what_is_gone_is_noticed(ops: tuple[Path, list[Op]], tmp_path: Path) -> None:
    *_, whole = states(ops[1])
    damaged = State({**whole.files, "runs.db": whole.files["runs.db"][:-8192]}, whole.said)
    empty = State({}, whole.said)
    audit, complaints = run_audit(ops[0] / "runs.db", [whole, damaged, empty], tmp_path / "left")
    assert audit == Audit(states=3, refused=1, damaged=0, lost=1), complaints


def test_the_model_of_a_file_system_leaves_what_was_not_synced_in_any_form() -> None:
    page, other = b"a" * 1024, b"b" * 1024
    did = [
        Op("create", "f"),
        Op("write", "f", 0, page),
        Op("sync", "f"),
        Op("sync-folder"),
        Op("say", data=b"stored\n"),
        Op("write", "f", 0, other),
        Op("write", "f", 1024, other),
        Op("unlink", "f"),
    ]
    found = [(state.said, state.files.get("f")) for state in states(did, thorough=True)]
    assert ((), None) in found
    assert ((), b"") in found
    assert {files for said, files in found if said} == {
        None,
        page,
        other,
        b"b" * 512 + b"a" * 512,
        b"a" * 512 + b"b" * 512,
        page + other,
        other + other,
        other + b"b" * 512,
        other + bytes(512) + b"b" * 512,
    }
