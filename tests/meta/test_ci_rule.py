"""In CI a test that did not run is a failure."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
PASSES = "def test_passes(): pass\n"
SKIPS = "import pytest\n@pytest.mark.skip\ndef test_waits(): pass\n"
SKIPS_WHILE_COLLECTING = "import pytest\npytest.importorskip('no_such_module')\n"
FAILS_AS_EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_hopes(): assert False\n"
PASSES_UNEXPECTEDLY = "import pytest\n@pytest.mark.xfail\ndef test_hopes(): pass\n"
FAILS_AROUND = """import pytest

@pytest.fixture
def broken(): assert False

@pytest.fixture
def breaks():
    yield
    assert False

def test_is_not_begun(broken): pass
def test_passes(): pass
def test_breaks(breaks): pass
"""
COUNTING = """
told = []

def pytest_runtest_logreport(report): told.append(report.when)
def pytest_terminal_summary(terminalreporter): terminalreporter.write_line("told: " + " ".join(sorted(told)))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("STEPTRAIL_CI", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(test_passes=PASSES)
    return pytester


def test_a_run_in_which_every_test_passed_is_green(suite: pytest.Pytester) -> None:
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (SKIPS, "test_other.py::test_waits: skipped"),
        (SKIPS_WHILE_COLLECTING, "test_other.py: skipped while collecting"),
        (FAILS_AS_EXPECTED, "test_other.py::test_hopes: expected to fail"),
        (PASSES_UNEXPECTEDLY, "test_other.py::test_hopes: expected to fail"),
    ],
)
def test_a_test_that_was_excused_fails_the_run(suite: pytest.Pytester, source: str, complaint: str) -> None:
    suite.makepyfile(test_other=source)
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"STEPTRAIL_CI: {complaint}", "*1 passed*"])


@pytest.mark.slow("starts pytest with two workers")
def test_the_rule_holds_across_worker_processes(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_other=SKIPS, test_third=SKIPS_WHILE_COLLECTING)
    result = suite.runpytest_subprocess("-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["STEPTRAIL_CI: test_other.py::test_waits: skipped", "STEPTRAIL_CI: test_third.py: skipped while collecting"]
    )


@pytest.mark.slow("starts pytest with two workers")
def test_workers_tell_of_a_test_that_passes_once_and_of_all_that_fails_around_one(suite: pytest.Pytester) -> None:
    suite.makepyfile(counting=COUNTING, test_other=FAILS_AROUND)
    result = suite.runpytest_subprocess("-n", "2", "-p", "counting")
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["told: call call call setup teardown"])


def test_a_run_without_a_test_fails(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_passes="")
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["STEPTRAIL_CI: no test passed"])


def test_a_failure_stays_a_failure(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_other="def test_fails(): assert False\n")
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.TESTS_FAILED


def test_outside_ci_a_skip_is_allowed(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPTRAIL_CI")
    suite.makepyfile(test_other=SKIPS)
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.OK
