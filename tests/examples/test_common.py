"""What the examples share: the model that is asked for speaks, and nothing else does unless it says so."""

from pathlib import Path

import pytest

from examples.common import choose_model, exit_code, who_speaks
from steptrail import AgentBuilder, Steptrail
from steptrail.interfaces.cli.exits import exit_of
from steptrail.testing import Reply, ScriptedModel
from tests.examples.running import command_of, environment, run, run_example


@pytest.mark.parametrize(
    ("name", "driver"), [(None, "scripted"), ("gpt-5-mini", "openai"), ("claude-sonnet-4-5", "anthropic")]
)
def test_the_name_chooses_the_driver(name: str | None, driver: str) -> None:
    model = choose_model(name, []).describe()
    assert (model.driver, model.model) == (driver, name or "scripted")
    assert who_speaks(name).startswith(f"model: {name or 'a script'}")


@pytest.mark.parametrize(("script", "steps", "code"), [(["Hello."], 5, 0), ([OSError("no")], 5, 1), (["Hello."], 0, 3)])
def test_the_exit_code_is_that_of_the_command_line(script: list[Reply], steps: int, code: int) -> None:
    agent = AgentBuilder("greeter").with_model(ScriptedModel(script)).with_max_steps(steps).build()
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(agent, "Hello?")
    assert exit_code(result) == exit_of(result) == code


def test_no_process_of_an_example_inherits_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    monkeypatch.setenv("OPENAI_BASE_URL", "b")
    assert environment().keys().isdisjoint({"ANTHROPIC_API_KEY", "OPENAI_BASE_URL"})


@pytest.mark.parametrize(
    ("example", "option", "given", "said"),
    [
        ("support_desk", "--slow", "nan", "a number of seconds, up to a day, not nan"),
        ("support_desk", "--folder", "file", "file is a file, not a folder"),
        ("service", "--port", "99999", "a port is a number from 0 to 65535, not 99999"),
        ("service", "--grace", "-1", "a number of seconds, up to a day, not -1"),
        ("service", "--folder", "file/below", "file is a file, not a folder"),
        ("research", "--folder", "file", "file is a file, not a folder"),
        ("approval.ask", "--folder", "file", "file is a file, not a folder"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(
    tmp_path: Path, example: str, option: str, given: str, said: str
) -> None:
    (tmp_path / "file").touch()
    topic = [] if example == "service" else ["1"]
    done = run(*command_of(example, *topic, option, given)[1:], cwd=tmp_path)
    assert (done.returncode, f"argument {option}: " in done.stderr, said in done.stderr) == (2, True, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("example", "more", "said"),
    [
        ("support_desk", ["1", "--folder", "/proc/nothing"], "No such file or directory: '/proc/nothing'"),
        ("research", ["crash", "--folder", "/proc/nothing"], "No such file or directory: '/proc/nothing'"),
        ("research", ["crash", "--max-steps", "-1"], "max_steps: Expected `int` >= 0, not -1"),
        ("approval.ask", ["r", "--folder", "/proc/nothing"], "No such file or directory: '/proc/nothing'"),
        ("approval.review", ["--folder", "none"], "there is no folder "),
        ("approval.work", ["--folder", "none"], "there is no folder "),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, example: str, more: list[str], said: str) -> None:
    done = run_example(tmp_path, example, *more, exits=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
