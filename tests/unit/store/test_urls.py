"""What `open_store` understands, and what it says to the rest."""

from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import ConfigurationError, StoreUnavailable
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.origin import Origin
from steptrail.infrastructure.store.postgres.address import PostgresAddress


@pytest.mark.parametrize(
    "url",
    [
        "",
        "runs.db",
        "sqlite:runs.db",
        "sqlite://runs.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///runs.db?mode=ro",
        "sqlite:///a\0b",
        "mysql://host/db",
    ],
)
def test_another_address_is_refused_with_the_ones_there_are(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///relative\.db, sqlite:////absolute\.db"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://app:SECRET@x",
        "sqlite://x?password=SECRET",
        "host=db.example.com user=app password=SECRET dbname=runs",
        "mysql://app:SECRET@x/runs",
        "mysql://x/runs?password=SECRET",
        "app:SECRET@db.example.com/runs",
    ],
)
def test_no_address_that_is_refused_is_repeated_with_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"durability": "off"}, "'full' or 'normal', not 'off'"),
        ({"busy_timeout": -1.0}, "seconds from 0"),
        ({"busy_timeout": float("nan")}, "seconds from 0"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        open_store("sqlite:///:memory:", **settings)


async def test_a_relative_address_is_resolved_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///runs.db")
    monkeypatch.chdir("/")
    await store.close()
    assert (tmp_path / "runs.db").exists()


@pytest.mark.parametrize("settings", [{"create": False}, {"read_only": True}])
def test_a_store_in_memory_cannot_be_there_already(settings: dict[str, Any]) -> None:
    with pytest.raises(StoreUnavailable, match="begins empty"):
        open_store("sqlite:///:memory:", **settings)


def test_who_shows_what_a_store_was_opened_at_shows_no_password() -> None:
    url = "postgresql://app:hunter2@db.example/runs"
    shown = repr([PostgresAddress.parse(url), Origin(url, None, 5.0, is_read_only=False)])
    assert "hunter2" not in shown
    assert "postgresql://app@db.example/runs" in shown
