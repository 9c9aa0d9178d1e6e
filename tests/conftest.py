"""What every test run needs, and the rule of CI that a test which did not run has not passed."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.harness.postgres_server import PostgresServer

# What our own plugin has imported by now is too late for that, and asserts nothing.
_TESTS = Path(__file__).parent
for package, folder in (("steptrail.testing", _TESTS.parent / "testing"), ("tests.harness", _TESTS / "harness")):
    for module in sorted(folder.glob("*.py")):
        if (name := f"{package}.{module.stem}") not in sys.modules:
            pytest.register_assert_rewrite(name)

# A deadline is a wall-clock assertion, and so is the complaint that drawing took long: we make none.
settings.register_profile(
    "steptrail",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("steptrail")


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """One server for each worker of a test run, started when the first test needs it."""
    from tests.harness.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def spare_databases() -> list[str]:
    """Databases that were used and emptied: making one costs more than most tests."""
    return []


@pytest.fixture
def postgres_database(postgres_server: "PostgresServer", spare_databases: list[str]) -> Iterator[str]:
    """The name of a database without a store, which a test has to itself."""
    name = spare_databases.pop() if spare_databases else postgres_server.create_database()
    yield name
    postgres_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "DROP SCHEMA IF EXISTS steptrail CASCADE",
        database=name,
    )
    spare_databases.append(name)


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer", postgres_database: str) -> str:
    """The address of that database."""
    return postgres_server.url(postgres_database)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store in a file, and of one on a server: for what a server may do otherwise."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


class EveryTestRan:
    """Fail a run with a skip, an expected failure or no test at all. Switched on by `STEPTRAIL_CI=1`."""

    def __init__(self) -> None:
        self.passed = 0
        self.excused: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.excused[report.nodeid] = "skipped while collecting"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "wasxfail"):
            self.excused[report.nodeid] = "expected to fail"
        elif report.skipped:
            self.excused[report.nodeid] = "skipped"
        elif report.passed and report.when == "call":
            self.passed += 1

    def complaints(self) -> Iterator[str]:
        if not self.passed:
            yield "no test passed"
        for test, excuse in sorted(self.excused.items()):
            yield f"{test}: {excuse}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and any(self.complaints()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for complaint in self.complaints():
            terminalreporter.write_line(f"STEPTRAIL_CI: {complaint}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist sees a part of the run; the process that started it sees all reports.
    if os.environ.get("STEPTRAIL_CI") == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EveryTestRan(), "steptrail-every-test-ran")
