"""Many processes on one session, many on one log, and kills at moments that have no name."""

from pathlib import Path

from tests.harness.answering import answer_at_once
from tests.harness.fleet import Harm, fleet
from tests.harness.fleet_yard import Load
from tests.harness.lease_contest import contest_for_leases
from tests.harness.rolling import roll
from tests.harness.soak import contest, random_kills, tide
from tests.harness.store_urls import with_short_leases
from tests.harness.take_overs import struggle
from tests.harness.worker_pool import WorkerPool

LOAD, HARM = Load(20, seconds=0.3), Harm(kill_every=1.0, most_kills=6)


def test_of_eight_processes_on_one_session_one_at_a_time_runs_it_and_nothing_that_a_ninth_says_is_lost(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    fight = contest(pool, store_url, tmp_path, inputs=2, messages=6)
    assert fight.is_good, fight
    assert fight.refusals["SessionBusy"] > 0, "nobody was in anybody's way"


def test_readers_that_are_killed_and_started_again_see_every_event_once_whatever_becomes_of_the_writers(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    sea, killed = tide(pool, store_url, tmp_path, events=2000, kills=9, seed=20)
    assert sea.is_good, sea
    assert (sea.events >= 2000, sea.readers) == (True, 3)
    # A writer may have come to its end when its turn to die comes; readers go on until the last event.
    assert killed >= 3


def test_a_run_that_is_killed_at_random_moments_does_nothing_twice_and_ends_as_it_would_have(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    survivors = random_kills(pool, store_url, tmp_path, sessions=6, kills=3, seed=20)
    assert [survivor for survivor in survivors if not survivor.finding.is_good] == []
    assert sum(survivor.kills for survivor in survivors) > 0


def test_of_six_processes_that_take_a_session_from_each_other_one_owns_it_at_a_time(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    found = struggle(pool, with_short_leases(store_url), tmp_path, seed=20, blows=6)
    assert found.broken == 0, found
    assert found.segments > 2, "nobody took it over"


def test_of_processes_that_take_a_lease_from_each_other_and_are_killed_one_has_it_at_a_time(
    tmp_path: Path, pool: WorkerPool
) -> None:
    # On SQLite, whose leases are files: those of a server end by their term, which is tested with its clock.
    found = contest_for_leases(pool, f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, seed=20, kills=25)
    assert found.second_owners == []
    assert (found.granted > 100, found.kills > 10) == (True, True), found


def test_of_four_people_who_answer_a_question_at_the_same_moment_one_is_heard(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    answered = answer_at_once(pool, store_url, tmp_path, questions=12)
    assert answered.broken == 0, answered


def test_of_sessions_that_are_left_to_workers_each_comes_to_its_end_though_workers_are_killed(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    found = fleet(pool, store_url, tmp_path, LOAD, HARM, workers=3, seed=20)
    assert found.broken == 0, found
    assert found.kills > 0
    assert found.segments > found.sessions


def test_of_sessions_whose_workers_an_engine_wakes_each_comes_to_its_end_though_workers_are_killed(
    postgres_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    found = fleet(pool, postgres_url, tmp_path, LOAD, HARM, workers=3, seed=21, is_woken=True)
    assert found.broken == 0, found
    assert found.kills > 0
    assert found.segments > found.sessions


def test_while_all_workers_are_replaced_by_a_new_version_no_session_is_lost_and_each_says_what_changed(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    found = roll(pool, store_url, tmp_path, sessions=24, workers=2, seconds=0.1)
    assert found.broken == 0, found
    assert found.went_on, found
