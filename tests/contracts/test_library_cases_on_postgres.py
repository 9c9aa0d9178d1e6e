"""The library's own recorder test cases run against our recorder for PostgreSQL.

Run: every case of the application recorder, the optional subscription case, and the case that ids of concurrent
inserts do not interleave. Left out are the two cases that print rates and assert nothing about them, as for SQLite;
the process recorder and the factory are built for SQLite only.
"""

from typing import ClassVar
from unittest import TestCase
from uuid import uuid4

import pytest
from eventsourcing.persistence import ApplicationRecorder, StoredEvent
from eventsourcing.tests import persistence as library

from steptrail.infrastructure.store.core.digest import verify_chain
from steptrail.infrastructure.store.postgres.store import open_postgres
from tests.contracts.library_erasure import goes_on_past_an_erased_stream
from tests.harness.postgres_server import PostgresServer


class Databases(TestCase):
    """Gives each case a database and closes what was opened on it."""

    server: ClassVar[PostgresServer]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, postgres_server: PostgresServer) -> None:
        cls.server = postgres_server

    def new_originator_id(self) -> str:
        return str(uuid4())

    def create_recorder(self) -> ApplicationRecorder:
        name = self.server.create_database()
        self.addCleanup(self.server.drop_database, name)
        store = open_postgres(self.server.url(name), "full", 5.0, create=True, read_only=False)
        self.addCleanup(store.recorder.close)
        assert isinstance(store.recorder, ApplicationRecorder)
        return store.recorder


class TestApplicationRecorder(Databases, library.ApplicationRecorderTestCase[ApplicationRecorder]):
    test_performance = None  # type: ignore[assignment]
    test_concurrent_throughput = None  # type: ignore[assignment]

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestIdsDoNotInterleave(Databases, library.NonInterleavingNotificationIDsBaseCase):
    pass


def test_what_the_library_inserts_is_sealed_too(postgres_url: str) -> None:
    def event(stream: str, version: int) -> StoredEvent:
        return StoredEvent(originator_id=stream, originator_version=version, topic="t", state=b"{}")

    recorder = open_postgres(postgres_url, "full", 5.0, create=True, read_only=False).recorder
    assert isinstance(recorder, ApplicationRecorder)
    assert recorder.insert_events([event("a", 1), event("a", 2), event("b", 1)]) == [1, 2, 3]
    recorder.insert_events([event("a", 3)])
    chain = recorder.select_chain("a", 0, 10)
    assert [row.actor for row in chain] == ["library", None, "library"]
    assert verify_chain("a", chain) is None
    assert verify_chain("b", recorder.select_chain("b", 0, 10)) is None
    recorder.close()


def test_the_library_goes_on_past_an_erased_stream_and_cannot_write_it_again(postgres_url: str) -> None:
    store = open_postgres(postgres_url, "full", 5.0, create=True, read_only=False)
    assert isinstance(store.recorder, ApplicationRecorder)
    goes_on_past_an_erased_stream(store.recorder, store.recorder)
    store.recorder.close()
