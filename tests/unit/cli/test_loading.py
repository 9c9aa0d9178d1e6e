"""From AGENT to an agent: what is found, and one clear line for what is not."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail import Agent
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.module_names import module_of
from steptrail.interfaces.python.loading import load_agent, split_reference
from steptrail.interfaces.python.modules import load_module

HEAD = "from steptrail import AgentBuilder\nfrom steptrail.testing import ScriptedModel\n"
BLOCK = "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def agent():\n"
BUILDER = "AgentBuilder('a').with_model(ScriptedModel(['hi']))"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory; what is imported from it is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


async def loaded(reference: str) -> Agent:
    async with load_agent(reference) as agent:
        return agent


async def refusal(reference: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await loaded(reference)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("reference", "target", "name"),
    [
        ("bots.py", "bots.py", "agent"),
        ("bots.py:triage", "bots.py", "triage"),
        ("shop.bots", "shop.bots", "agent"),
        ("shop.bots:triage", "shop.bots", "triage"),
        ("C:\\bots.py", "C:\\bots.py", "agent"),
        ("C:\\bots.py:triage", "C:\\bots.py", "triage"),
        ("a:b/bots.py", "a:b/bots.py", "agent"),
    ],
)
def test_a_reference_is_a_target_and_a_name(reference: str, target: str, name: str) -> None:
    assert split_reference(reference) == (target, name)


def test_a_workflow_in_the_place_of_an_agent_is_refused_before_it_is_entered(folder: Path) -> None:
    code = "from steptrail.workflow import Workflow\nflow = Workflow('t').noop('a').build()\n"
    (folder / "orders.py").write_text(code, encoding="utf-8")
    (folder / "orders.yaml").write_text("steptrail: flow/v1\nname: t\nnodes: [{id: a, kind: noop}]\n", encoding="utf-8")
    for reference in ("orders.py:flow", "orders.yaml"):
        with pytest.raises(ConfigurationError, match=f"^{reference} is a workflow: it has to be an agent$"):
            load_agent(reference)


@pytest.mark.parametrize("reference", ["", ":triage"])
def test_a_reference_needs_a_target(reference: str) -> None:
    with pytest.raises(ConfigurationError, match="names no agent"):
        split_reference(reference)


@pytest.mark.parametrize(
    "definition",
    [
        f"agent = {BUILDER}.build()",
        f"agent = {BUILDER}",
        f"def agent():\n    return {BUILDER}.build()",
        f"def agent(model='x'):\n    return {BUILDER}",
        f"agent = lambda: {BUILDER}",
        f"{BLOCK}    yield {BUILDER}",
        f"{BLOCK}    yield {BUILDER}.build()",
        f"{BLOCK}    yield {BUILDER}\n\nagent = agent()",
    ],
)
async def test_given_an_agent_a_builder_or_a_function_returning_one_then_it_is_found(
    folder: Path, definition: str
) -> None:
    (folder / "bots.py").write_text(HEAD + definition, encoding="utf-8")
    agent = await loaded("bots.py")
    assert (agent.name, agent.locator) == ("a", "bots.py")


async def test_given_a_file_then_the_modules_beside_it_can_be_imported(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "names.py").write_text("NAME = 'from beside'", encoding="utf-8")
    (folder / "deep" / "bots.py").write_text(
        HEAD + "from names import NAME\nmine = AgentBuilder(NAME).with_model(ScriptedModel(['hi']))", encoding="utf-8"
    )
    assert (await loaded("deep/bots.py:mine")).name == "from beside"


async def test_given_a_package_in_the_working_directory_then_its_module_is_found(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "bots.py").write_text(HEAD + f"triage = {BUILDER}", encoding="utf-8")
    assert (await loaded("shop.bots:triage")).locator == "shop.bots:triage"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("def agent(:", "cannot import bots.py: SyntaxError: invalid syntax (bots.py:3)"),
        ("x = 1\nimport no_such_thing", "cannot import bots.py: ModuleNotFoundError: No module named 'no_such_thing'"),
        (
            "x = 1\nraise ValueError('two\\nlines')",
            "cannot import bots.py: ValueError: two lines (bots.py:4 in <module>)",
        ),
        ("raise SystemExit(3)", "cannot import bots.py: it ends the program (exit 3)"),
        ("x = 1", "bots.py has no 'agent': give FILE.py:NAME"),
        (f"one = {BUILDER}\ntwo = {BUILDER}", "bots.py has no 'agent': give bots.py:one or bots.py:two"),
        ("agent = None", "bots.py is None: it has to be an Agent"),
        ("agent = 'triage'", "bots.py is an object of type str: it has to be an Agent"),
        ("def agent():\n    return 7", "bots.py returns an object of type int: it has to return an Agent"),
        ("async def agent():\n    return 7", "bots.py returns an object of type coroutine"),
        ("def agent(model):\n    return model", "bots.py cannot be called without arguments"),
        ("def agent():\n    raise KeyError('OPENAI')", "cannot import bots.py: KeyError: 'OPENAI'"),
        ("agent = AgentBuilder('a')", "bots.py: agent 'a' has no model"),
        (
            f"{BLOCK}    raise OSError('no server')\n    yield",
            "bots.py cannot be entered: OSError: no server (bots.py:6 in agent)",
        ),
        (
            f"{BLOCK}    yield {BUILDER}\n    raise OSError('still open')",
            "bots.py cannot be left: OSError: still open (bots.py:7 in agent)",
        ),
        (
            f"{BLOCK}    yield 7",
            "bots.py yields an object of type int: it has to yield an Agent, an AgentBuilder or a workflow",
        ),
        (f"{BLOCK}    yield AgentBuilder('a')", "bots.py: agent 'a' has no model"),
    ],
)
async def test_given_a_file_that_is_wrong_then_one_line_says_how(folder: Path, content: str, why: str) -> None:
    (folder / "bots.py").write_text(HEAD + content, encoding="utf-8")
    assert (await refusal("bots.py")).startswith(why)


async def test_given_a_module_that_fails_deep_below_then_its_own_line_is_named_and_the_traceback_logged(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "deep.py").write_text("x = 1\ny = x / 0\n", encoding="utf-8")
    (folder / "shallow.py").write_text("import deep\n", encoding="utf-8")
    assert (
        await refusal("shallow.py")
        == "cannot import shallow.py: ZeroDivisionError: division by zero (deep.py:2 in <module>)"
    )
    assert "y = x / 0" in caplog.text


async def test_given_a_library_that_raises_then_the_line_that_called_it_is_named(folder: Path) -> None:
    (folder / "bots.py").write_text("import json\n\nCONFIG = json.loads('{')\n", encoding="utf-8")
    assert (await refusal("bots.py")).endswith("(bots.py:3 in <module>)")


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("none.py", "there is no agent file none.py"),
        ("./folder", "there is no agent file folder"),
        ("no.such", "cannot import no.such: ModuleNotFoundError"),
        ("not-a-module", "'not-a-module' is no module"),
        ("..", "'..' is no module"),
    ],
)
async def test_given_nothing_there_then_one_line_says_so(reference: str, why: str) -> None:
    assert (await refusal(reference)).startswith(why)


@pytest.mark.parametrize("reference", ["agents.txt", "agents.txt:desk", "agents.toml"])
async def test_given_a_file_that_is_not_python_then_it_is_no_module_that_is_missing(
    reference: str, folder: Path
) -> None:
    file = reference.partition(":")[0]
    (folder / file).write_text("agent = 5", encoding="utf-8")
    assert (await refusal(reference)).startswith(f"{file} is not a Python file: give FILE.py[:NAME]")


async def test_given_a_block_then_what_it_opens_is_closed_when_the_run_is_over(folder: Path) -> None:
    (folder / "bots.py").write_text(
        f"{HEAD}from pathlib import Path\n{BLOCK}"
        f"    Path('log').write_text('opened')\n    yield {BUILDER}\n    Path('log').write_text('closed')",
        encoding="utf-8",
    )
    async with load_agent("bots.py") as agent:
        assert (agent.locator, (folder / "log").read_text()) == ("bots.py", "opened")
    assert (folder / "log").read_text() == "closed"


@pytest.mark.parametrize("reference", ["tea/shop/flows.py", "tea.shop.flows"])
def test_a_file_of_a_package_has_the_name_that_it_is_imported_under(folder: Path, reference: str) -> None:
    package = folder / "tea" / "shop"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    (package / "flows.py").write_text("class Tea: ...\n", encoding="utf-8")
    assert module_of(load_module(reference, "a file").Tea) == "tea.shop.flows"


@pytest.mark.parametrize("reference", ["mugs/__init__.py", "mugs"])
def test_a_package_that_is_loaded_by_its_own_file_has_its_name(folder: Path, reference: str) -> None:
    (folder / "mugs").mkdir()
    (folder / "mugs" / "__init__.py").write_text("class Mug: ...\n", encoding="utf-8")
    assert module_of(load_module(reference, "a file").Mug) == "mugs"


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    """What a test turns off is on for the tests behind it."""
    loggers = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    on = [each for each in loggers if not each.disabled]
    yield
    for each in on:
        each.disabled = False


SET_UP = "import logging.config\ndef up():\n logging.getLogger(NAME)\n logging.config.dictConfig({'version': 1})\n"


@pytest.mark.usefixtures("loggers_as_before")
@pytest.mark.parametrize(
    "text",
    [
        f"up()\nagent = {BUILDER}",
        f"def agent():\n up()\n return {BUILDER}",
        f"{BLOCK} up()\n yield {BUILDER}",
    ],
    ids=["module", "function", "block"],
)
async def test_a_logger_of_ours_is_left_on_by_code_that_sets_logging_up(
    folder: Path, text: str, request: pytest.FixtureRequest
) -> None:
    """That turns off all loggers that are there, and the module may have imported more of ours."""
    name = f"steptrail.{request.node.callspec.id}"
    (folder / "till.py").write_text(f"{HEAD}NAME = {name!r}\n{SET_UP}{text}\n", encoding="utf-8")
    async with load_agent("till.py"):
        assert not logging.getLogger(name).disabled
