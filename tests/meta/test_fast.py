"""`--fast` leaves out what is named with a reason, and says so; a folder that nobody thought of is in it."""

import re
import signal
from importlib import util
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
PASSES = "def test_passes(): pass\n"
SLOW = "import pytest\n@pytest.mark.slow({why})\ndef test_slow(): pass\n"
CHILD = """import signal

def test_a_child_is_interrupted(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
EXAMPLES = """from hypothesis import settings

def test_examples(): assert settings().max_examples == {number}
"""


PROPERTY = """from hypothesis import given, strategies

@given(strategies.booleans())
def test_property(drawn): assert drawn in (False, True)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("STEPTRAIL_CI", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\naddopts = --strict-markers\nmarkers = slow(why)")
    pytester.makepyfile(test_passes=PASSES)
    return pytester


@pytest.fixture(scope="session")
def left_out() -> dict[str, str]:
    spec = util.spec_from_file_location("conftest_of_tests", CONFTEST)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.LEFT_OUT
    return found


def test_what_is_left_out_is_a_folder_of_tests_with_a_reason(left_out: dict[str, str]) -> None:
    for folder, why in left_out.items():
        assert any((CONFTEST.parent / folder).rglob("test_*.py")), folder
        assert why


def test_the_makefile_leaves_out_besides_what_is_there_and_would_be_in_it(
    left_out: dict[str, str],
) -> None:
    makefile = (CONFTEST.parents[1] / "Makefile").read_text(encoding="utf-8")
    (named,) = re.findall(r"^FAST_WITHOUT \?= (.*)$", makefile, re.MULTILINE)
    for folder in named.split():
        place = CONFTEST.parent / folder
        assert place.is_file() or any(place.rglob("test_*.py")), folder
        assert folder.partition("/")[0] not in left_out


def test_a_folder_that_nobody_named_is_in_it(suite: pytest.Pytester) -> None:
    suite.mkpydir("new").joinpath("test_new.py").write_text(PASSES, encoding="utf-8")
    suite.runpytest_inprocess("--fast").assert_outcomes(passed=2)


def test_a_named_folder_is_left_out_and_the_run_says_so(suite: pytest.Pytester, left_out: dict[str, str]) -> None:
    for folder in left_out:
        suite.path.joinpath(folder).mkdir(parents=True)
        suite.path.joinpath(folder, f"test_{re.sub('[^a-z]', '_', folder)}.py").write_text(PASSES, encoding="utf-8")
    result = suite.runpytest_inprocess("--fast")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines_random([f"left out: {folder} ({why})" for folder, why in left_out.items()])
    suite.runpytest_inprocess().assert_outcomes(passed=1 + len(left_out))


def test_a_slow_test_is_left_out_and_counted(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_slow=SLOW.format(why="'waits for a lease'"))
    suite.runpytest_inprocess("--fast").assert_outcomes(passed=1, deselected=1)
    suite.runpytest_inprocess().assert_outcomes(passed=2)


def test_what_takes_long_comes_first_a_file_at_a_time_and_first_what_takes_longest(suite: pytest.Pytester) -> None:
    for folder in ("processes", "web"):
        suite.path.joinpath(folder).mkdir()
        suite.path.joinpath(folder, f"test_{folder}.py").write_text(PASSES, encoding="utf-8")
    slow = "def test_before_it(): pass\n" + SLOW.format(why="'waits for a lease'")
    suite.makepyfile(test_a=PASSES, test_slow=slow, test_property=PROPERTY)
    names = [line.split(" ")[0].rpartition("/")[2] for line in suite.runpytest_inprocess("-v").outlines if "::" in line]
    assert names == [
        "test_processes.py::test_passes",
        "test_web.py::test_passes",
        "test_property.py::test_property",
        "test_slow.py::test_before_it",
        "test_slow.py::test_slow",
        "test_a.py::test_passes",
        "test_passes.py::test_passes",
    ]


def test_a_slow_test_says_why(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_slow=SLOW.format(why=""))
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_slow.py::test_slow does not say why it is slow*"])


@pytest.mark.parametrize(
    ("profile", "arguments", "number"),
    [("", ["--fast"], 5), ("", [], 20), ("nightly", [], 1000)],
)
def test_properties_are_tried_with_fewest_examples_there_and_with_most_by_night(
    profile: str, arguments: list[str], number: int, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPOTHESIS_PROFILE", profile)
    suite.makepyfile(test_examples=EXAMPLES.format(number=number))
    suite.runpytest_inprocess(*arguments).assert_outcomes(passed=2)


def test_processes_of_tests_can_be_interrupted_also_in_a_run_in_the_background(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_child=CHILD)
    here = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        suite.runpytest_inprocess("test_child.py").assert_outcomes(passed=1)
    finally:
        signal.signal(signal.SIGINT, here)
