"""The stores that the harness uses up are where their names say."""

from pathlib import Path

import pytest

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from tests.harness.store_urls import POSTGRES_VARIABLE, store_to_use_up, with_short_leases


def test_a_file_is_made_in_the_folder(tmp_path: Path) -> None:
    with store_to_use_up("sqlite", tmp_path) as url:
        assert url == f"sqlite:///{tmp_path.resolve()}/runs.db"


def test_a_database_that_somebody_names_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://ana@db.example/empty")
    with store_to_use_up("postgres", tmp_path) as url:
        assert url == "postgresql://ana@db.example/empty"


def test_another_store_is_refused_with_the_names_of_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="sqlite, postgres"), store_to_use_up("mysql", tmp_path):
        pass


@pytest.mark.parametrize("options", ["", "?answer_timeout=5", "?lease_seconds=600"])
def test_only_leases_that_nobody_frees_are_made_short(options: str) -> None:
    url = f"postgresql://ana@db.example/empty{options}"
    assert PostgresAddress.parse(with_short_leases(url)).lease_seconds < 1
    assert PostgresAddress.parse(with_short_leases(url)).name == PostgresAddress.parse(url).name
    assert with_short_leases("sqlite:///runs.db") == "sqlite:///runs.db"
