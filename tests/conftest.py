"""What every run needs, what `--fast` leaves out, and the rule that in CI a test which did not run has not passed."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.harness.postgres_server import PostgresServer
    from tests.harness.spare_databases import SpareDatabases
    from tests.harness.worker_pool import WorkerPool

# What our own plugin has imported by now is too late for that, and asserts nothing.
_TESTS = Path(__file__).parent
for package, folder in (("steptrail.testing", _TESTS.parent / "testing"), ("tests.harness", _TESTS / "harness")):
    for module in sorted(folder.glob("*.py")):
        if (name := f"{package}.{module.stem}") not in sys.modules:
            pytest.register_assert_rewrite(name)

# Whoever makes a client of HTTP reads all authorities of the machine first: 50 ms of a processor, a thousand times. No
# test asks a server that any of them vouches for, so one is enough, also in the processes that tests start.
# A copy of this file that a test of it runs in this process has none beside it.
if (_authority := _TESTS / "harness" / "authority.pem").exists():
    os.environ["SSL_CERT_FILE"] = str(_authority)

# A run in the background of a script ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Under `nohup` they would ignore the end of a terminal, too. A program that is started has no handler of its parent, so
# this process still outlives its terminal, and those that tests start do not.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

# A deadline is a wall-clock assertion, and so is the complaint that drawing took long: we make none.
settings.register_profile(
    "steptrail",
    max_examples=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("steptrail-fast", settings.get_profile("steptrail"), max_examples=5)
settings.register_profile("steptrail-nightly", settings.get_profile("steptrail"), max_examples=1000)
settings.load_profile("steptrail-nightly" if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else "steptrail")

LEFT_OUT = {
    "agui": "servers and clients of npm",
    "benchmarks": "runs them, each in a process",
    "contracts": "a PostgreSQL server",
    "docs": "runs every block of the guides",
    "e2e": "a process for each command",
    "examples": "a process for each example",
    "integration": "servers, databases and processes",
    "processes": "processes that are killed",
    "typing": "a run of each type checker",
    "web": "a browser",
}
"""The folders that `--fast` leaves out, and why. Every other one is in it, also one that is new."""


@pytest.fixture(scope="session")
def pool() -> "Iterator[WorkerPool]":
    """One pool of processes for each worker of a test run, whose server is started when the first test needs it."""
    from tests.harness.worker_pool import WorkerPool

    with WorkerPool() as made:
        yield made


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """One server for each worker of a test run, started when the first test needs it."""
    from tests.harness.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def spare_databases(postgres_server: "PostgresServer") -> "Iterator[SpareDatabases]":
    """The databases of that server which no test uses just now."""
    from tests.harness.spare_databases import SpareDatabases

    with closing(SpareDatabases(postgres_server)) as made:
        yield made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs looks at once for what others say to it: the fifth of a second before it does shows nothing."""
    for module in ("news", "running_effects"):
        monkeypatch.setattr(f"steptrail.runtime.kernel.{module}._QUICK_SECONDS", 0.01)


@pytest.fixture
def impatient(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes no notice of being cancelled is left behind soon: the second that it has shows nothing."""
    monkeypatch.setattr("steptrail.runtime.agent.inference.PATIENCE_SECONDS", 0.05)
    for module in ("flow.calls.function", "flow.calls.llm", "flow.calls.webhook"):
        monkeypatch.setattr(f"steptrail.runtime.{module}._PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("steptrail.infrastructure.tools.execution._GRACE_SECONDS", 0.05)


@pytest.fixture
def postgres_database(spare_databases: "SpareDatabases") -> Iterator[str]:
    """The name of a database without a store, which a test has to itself."""
    with spare_databases.without_store() as name:
        yield name


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer", postgres_database: str) -> str:
    """The address of that database."""
    return postgres_server.url(postgres_database)


@pytest.fixture
def postgres_store_url(postgres_server: "PostgresServer", spare_databases: "SpareDatabases") -> Iterator[str]:
    """The address of an empty store, which a test has to itself. It is there before the test opens it."""
    with spare_databases.empty_store() as name:
        yield postgres_server.url(name)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store in a file, and of one on a server: for what a server may do otherwise."""
    return store_of(request, tmp_path)


ON_FILE_ONLY = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Marks a test or a class whose subject no server does otherwise, beside others that ask a server the same."""


def store_of(request: pytest.FixtureRequest, tmp_path: Path, *, on_server: str = "postgres_store_url") -> str:
    """Return the address of a store of the kind that a parameter names; `on_server` is the fixture of one there."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    url: str = request.getfixturevalue(on_server)
    return url


def pytest_addoption(parser: pytest.Parser) -> None:
    why = "only what takes less than a minute: no slow test, none with a server, none of LEFT_OUT, few examples"
    parser.addoption("--fast", action="store_true", help=why)


def pytest_report_header(config: pytest.Config) -> list[str]:
    left_out = [f"left out: {folder} ({why})" for folder, why in LEFT_OUT.items()]
    return left_out if config.getoption("--fast") else []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Next to nothing of what is imported and collected is garbage, and looking for it takes a fifth of the time. Later
    # too: left where it is, it costs a property a seventh of its time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What tests leave is mostly freed without it. With the usual threshold it looks twenty times as often, and at
        # all that is alive a dozen times in each worker.
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    left_out = [Path(__file__).parent / folder for folder in LEFT_OUT]
    return True if config.getoption("--fast") and collection_path in left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if (mark := item.get_closest_marker("slow")) is not None and not mark.args:
            raise pytest.UsageError(f"{item.nodeid} does not say why it is slow: @pytest.mark.slow('why')")
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=list(filter(is_slow, items)))
        items[:] = filterfalse(is_slow, items)
    # Workers that begin with what takes long end at the same time: single tests of these three take up to 40 seconds.
    long = {item.path for item in items if takes_long(item)}
    items.sort(key=lambda item: (item.path not in long, folder_of(item) not in ("benchmarks", "processes", "web")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In a worker, send of a test that passes one message instead of five: they took as long as a test does.

    What was slow or did not pass besides the call is sent too.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration >= 1:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def takes_long(item: pytest.Item) -> bool:
    """Whether `--fast` leaves this test out, or tries it with fewer examples."""
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return folder_of(item) in LEFT_OUT or is_slow(item) or is_property


def folder_of(item: pytest.Item) -> str:
    """Return the folder of this directory that a test lies in; an empty text for one that lies elsewhere."""
    return _folder_of(item.path)


@cache
def _folder_of(path: Path) -> str:
    return path.relative_to(_TESTS).parts[0] if path.is_relative_to(_TESTS) else ""


def is_slow(item: pytest.Item) -> bool:
    """Whether this test is marked slow, or needs a PostgreSQL server: its twin on SQLite may still be fast."""
    of_server = "postgres_server" in getattr(item, "fixturenames", ())
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return item.get_closest_marker("slow") is not None or of_server or "postgres" in parameters.values()


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
    if config.getoption("--fast"):
        settings.load_profile("steptrail-fast")
    # A worker of xdist sees a part of the run; the process that started it sees all reports.
    if os.environ.get("STEPTRAIL_CI") == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EveryTestRan(), "steptrail-every-test-ran")
