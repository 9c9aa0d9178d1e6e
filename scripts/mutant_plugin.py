"""A plugin of pytest for the mutation run: which test runs which line, how long tests take, and which one failed.

It is copied beside the tree that is looked at, which may be an older one, so it imports nothing of ours.
"""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest
from hypothesis import Phase, settings

FOLDER = Path(os.environ["STEPTRAIL_MUTANTS"])
MAPS = (FOLDER / "coveragerc").exists()


def name_of(nodeid: str) -> str:
    """Return the test function: what a parameter is called may depend on the code that is broken."""
    return nodeid.partition("[")[0]


class Times:
    """What each test function took over all its parameters, and whether all of them passed."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self.seconds[name_of(report.nodeid)] += report.duration
        if not report.passed:
            self.failed.append(name_of(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        told = {"seconds": self.seconds, "failed": self.failed}
        (FOLDER / "tests.json").write_text(json.dumps(told), encoding="utf-8")


class Lines:
    """Coverage with one context for each test, also in the processes that it starts."""

    def __init__(self) -> None:
        os.environ["STEPTRAIL_MUTANTS_TEST"] = ""
        self.coverage = coverage.Coverage(config_file=str(FOLDER / "coveragerc"))
        self.coverage.start()
        os.environ["COVERAGE_PROCESS_START"] = str(FOLDER / "coveragerc")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note whose lines the next ones are."""
        name = os.environ["STEPTRAIL_MUTANTS_TEST"] = name_of(item.nodeid)
        self.coverage.switch_context(name)
        return (yield)

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        self.coverage.stop()
        self.coverage.save()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch the run, in the process whose part it is."""
    # An example that fails is enough here; the smallest one takes minutes to find.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", parent=settings.default, phases=phases, database=None)
    settings.load_profile("mutants")
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        config.pluginmanager.register(Times(), "steptrail-mutants-times")
    if MAPS and (is_worker or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Lines(), "steptrail-mutants-lines")
