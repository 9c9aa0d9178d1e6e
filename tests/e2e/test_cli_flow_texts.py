"""Workflows in YAML and JSON on the command line: run with code that is brought, checked, described, and drawn."""

import json
import shlex

import pytest
import yaml

from steptrail.workflow import flow_schema
from tests.e2e.cli import Cli

APP = """
import json
from contextlib import asynccontextmanager
from steptrail import AgentBuilder, tool
from steptrail.testing import ScriptedModel
from steptrail.workflow import Workflow

_hidden = len
number = 7


def parse(envelope):
    return {"title": envelope.input["title"]}


@tool(effect="keyed")
def index(title: str) -> int:
    return len(title)


@tool(effect="read")
def away(title: str) -> int:
    raise ConnectionError("no way")


small = ScriptedModel(["A text."])
critic = AgentBuilder("critic").with_model(ScriptedModel(["Too short."]))
inner = Workflow("inner", result="same").function("same", lambda e: e.input, output="same")
broken = AgentBuilder("broken")


@asynccontextmanager
async def desk(context):
    print("opened", flush=True)
    yield {"name": "the desk"}
    print("closed", flush=True)


def ask_desk(envelope, context):
    return context.resources["name"]
"""

CODE = """
from steptrail.workflow import Workflow

unbuilt = Workflow("lonely", entry="one").noop("one").noop("two")
built = unbuilt.build()
cycle = Workflow("cycle").noop("one").noop("two").edge("one", "two").edge("two", "one")
"""

FLOW = """\
steptrail: flow/v1
name: publish
result: words
nodes:
  - {id: parse, kind: function, use: parse, output: doc}
  - {id: review, kind: human, prompt: "Publish {{ vars.doc.title }}?"}
  - {id: index, kind: tool, use: index, args: {title: "{{ vars.doc.title }}"}, output: words}
edges: [parse > review > index]
"""
GIVEN = '{"title": "On tea"}'
USE = ("--use", "app.py")


@pytest.fixture
def texts(cli: Cli) -> Cli:
    (cli.folder / "app.py").write_text(APP, encoding="utf-8")
    (cli.folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    return cli


def written(texts: Cli, name: str, text: str) -> str:
    (texts.folder / name).write_text(text, encoding="utf-8")
    return name


def refused(texts: Cli, *words: str) -> list[str]:
    done = texts(*words)
    assert (done.code, done.out) == (2, "")
    assert not any(file.endswith(".db") for file in texts.files)
    lines = done.err.splitlines()
    assert all(line.startswith("steptrail: ") and len(line) < 400 for line in lines)
    return [line.removeprefix("steptrail: ") for line in lines]


def next_command(lines: list[str]) -> list[str]:
    (line,) = [line for line in lines if line.startswith("next")]
    return shlex.split(line.split("`")[1])[1:]


@pytest.mark.acceptance("7.5-1")
def test_a_workflow_in_yaml_is_run_answered_and_goes_on_with_the_code_that_is_brought(texts: Cli) -> None:
    asked = texts("run", "flow.yaml", GIVEN, *USE, "--id", "p")
    assert (asked.code, asked.err) == (4, "")
    answered = texts("answer", "p", "review", "--approve", "--by", "ana")
    assert answered.lines == ["flow:p: recorded; `steptrail resume flow.yaml flow:p --use app.py` goes on"]
    paused = texts("resume", "flow.yaml", "p")
    assert (paused.code, paused.out) == (2, "")
    done = texts("resume", "flow.yaml", "p", *USE)
    assert (done.code, done.lines[-1]) == (0, "6")
    again = texts("run", "flow.yaml", GIVEN, *USE, "--id", "p", "--json")
    assert (again.json["output"], again.json["stored"]) == (6, True)
    # What is stored says where the workflow and its code were, and no other command needs to be told again.
    assert "next        `steptrail run flow.yaml INPUT --id p --use app.py`" in texts("why", "p").lines


def test_json_and_a_module_do_as_well(texts: Cli) -> None:
    written(texts, "flow.json", json.dumps(yaml.safe_load(FLOW)))
    assert texts("run", "flow.json", GIVEN, "--use", "app", "--id", "j").code == 4
    assert texts("flow", "check", "flow.json", "--use", "app").code == 0


def test_what_is_not_built_is_built_when_it_is_used(texts: Cli) -> None:
    text = """
steptrail: flow/v1
name: below
nodes:
  - {id: critic, kind: agent, use: critic, prompt: "{{ input }}", output: said}
  - {id: same, kind: flow, use: inner, input: "{{ vars.said }}", output: out}
edges: [critic > same]
"""
    done = texts("run", written(texts, "below.yml", text), "1", *USE)
    assert (done.code, done.lines[-1]) == (0, '"Too short."')
    wrong = written(texts, "wrong.yml", text.replace("use: critic", "use: broken"))
    refused = texts("run", wrong, "1", *USE)
    assert (refused.code, refused.err.startswith("steptrail: wrong.yml:5:5: FL-110: app.py:broken: ")) == (2, True)


def test_the_command_that_goes_on_brings_the_code_again(texts: Cli) -> None:
    failing = written(texts, "failing.yaml", FLOW.replace("use: index", "use: away, retry: {max_attempts: 1}"))
    asked = texts("run", failing, GIVEN, "--use", "app.py", "--id", "f")
    assert asked.code == 4
    texts("answer", "f", "review", "--approve", "--by", "ana")
    failed = texts("resume", failing, "f", *USE)
    assert failed.code == 1
    command = next_command(failed.lines)
    assert command == ["retry", "failing.yaml", "flow:f", "--use", "app.py"]
    assert texts(*command).code == 1


def test_a_worker_takes_texts_and_code_side_by_side(texts: Cli) -> None:
    written(texts, "app.py", APP + "\nwith open('ledger', 'a') as ledger:\n    ledger.write('imported ')\n")
    written(texts, "other.yaml", FLOW.replace("name: publish", "name: other"))
    started = texts("start", "flow.yaml", GIVEN, *USE, "--id", "s")
    (texts.folder / "ledger").unlink()
    assert (started.code, started.lines) == (0, ["flow:s"])
    worker = texts.start("work", "flow.yaml", "other.yaml", *USE)
    follower = texts.start("tail", "flow:s", "--follow")
    assert follower.stdout is not None
    assert any("human.requested.v1" in line for line in follower.stdout)
    worker.terminate()
    assert worker.wait() == 0
    assert texts.ledger == ["imported"]
    assert refused_work(texts) == "--use: every AGENT brings its own code: it is for workflows in YAML or JSON"


def refused_work(texts: Cli) -> str:
    done = texts("work", "app.py:critic", *USE)
    assert done.code == 2
    return done.err.strip().removeprefix("steptrail: ")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["none.yaml", GIVEN, *USE], "there is no file none.yaml"),
        (["flow.yaml", GIVEN, "--use", "none.py"], "there is no file none.py: give FILE.py or package.module"),
        (["flow.yaml", GIVEN, "--use", "a-b"], "'a-b' is no module: give FILE.py or package.module"),
        (["app.py:inner", GIVEN, *USE], "app.py:inner brings its own code: --use is for a workflow in YAML or JSON"),
        (["flow.yaml", GIVEN], "flow.yaml:5:33: FL-105: nothing is brought under the name 'parse' (--use FILE.py "),
        (["flow.yaml", "hello", *USE], "the INPUT of a workflow: 'hello' is not JSON"),
        (["folder.yaml", GIVEN], "folder.yaml cannot be read: Is a directory"),
        (["binary.yaml", GIVEN], "binary.yaml is no text in UTF-8"),
        (
            ["empty.yaml", GIVEN],
            "empty.yaml:1:1: FL-110: a workflow is an object that begins with `steptrail:",
        ),
        (["long.yaml", GIVEN], "long.yaml:1:1: FL-100: it has more than 1,048,576 bytes"),
        (["hostile.yaml", GIVEN], "hostile.yaml:1:1: FL-100: unacceptable character"),
        (["cut.json", GIVEN], "cut.json:2:1: FL-100: Expecting value"),
        (["two.yaml", GIVEN, *USE, "--use", "app2.py"], "two.yaml:5:5: FL-110: 'parse' stands for different things in"),
        (["hidden.yaml", GIVEN, *USE], "hidden.yaml:5:33: FL-105: nothing is brought under the name '_hidden'"),
        (["module.yaml", GIVEN, *USE], "module.yaml:5:33: FL-105: nothing is brought under the name 'json'"),
        (["number.yaml", GIVEN, *USE], "number.yaml:5:5: FL-110: 7 is no function"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place_before_a_store_is_made(
    texts: Cli, words: list[str], why: str
) -> None:
    (texts.folder / "folder.yaml").mkdir()
    (texts.folder / "binary.yaml").write_bytes(b"\xff\xfe")
    written(texts, "empty.yaml", "")
    written(texts, "long.yaml", "é" * 2_000_000)
    written(texts, "hostile.yaml", "a: [1\n\x1b[2J")
    written(texts, "cut.json", '{"a":\n')
    written(texts, "two.yaml", FLOW)
    written(texts, "app2.py", APP)
    for name in ("_hidden", "json", "number"):
        written(texts, f"{name.replace('json', 'module').strip('_')}.yaml", FLOW.replace("use: parse", f"use: {name}"))
    assert refused(texts, "run", *words)[0].startswith(why)
    assert refused(texts, "start", *words)[0].startswith(why)


def test_a_module_that_lists_its_names_brings_no_others(texts: Cli) -> None:
    written(texts, "app.py", APP + '\n__all__ = ["index", "none"]\n')
    (why,) = refused(texts, "run", "flow.yaml", GIVEN, *USE)
    assert why.startswith("flow.yaml:5:33: FL-105: nothing is brought under the name 'parse'")


@pytest.mark.acceptance("7.5-2")
def test_all_faults_are_told_at_once_each_on_a_line(texts: Cli) -> None:
    wrong = FLOW.replace("use: parse", "use: number").replace("use: index", "use: indx").replace("> index", "> gone")
    told = refused(texts, "run", written(texts, "wrong.yaml", wrong), GIVEN, *USE)
    assert [line.split(": ")[:2] for line in told] == [
        ["wrong.yaml:5:5", "FL-110"],
        ["wrong.yaml:7:29", "FL-105"],
        ["wrong.yaml:8:9", "GR-001"],
    ]
    checked = texts("flow", "check", "wrong.yaml", *USE)
    assert (checked.code, checked.lines, checked.err) == (1, told, "")


def test_a_text_is_checked_without_its_code_too(texts: Cli) -> None:
    done = texts("flow", "check", "flow.yaml")
    assert (done.code, done.lines) == (0, ["flow.yaml: nothing is wrong"])
    assert done.err == "steptrail: the text alone was checked: --use FILE.py checks how it fits the code\n"
    cycle = written(texts, "cycle.yaml", FLOW.replace("review > index", "review > index > parse"))
    (found,) = texts("flow", "check", cycle, "--json").json["diagnostics"]
    assert (found["code"], found["line"], found["severity"]) == ("GR-004", 8, "error")
    assert texts("flow", "check", "none.yaml").code == 2
    assert texts("flow", "check", "flow.yaml", "--use", "none.py").code == 2


def test_a_warning_is_told_and_is_no_failure(texts: Cli) -> None:
    lonely = FLOW.replace("edges: [parse > review > index]", "edges: [parse > review]")
    done = texts("flow", "check", written(texts, "lonely.yaml", lonely), *USE)
    assert (done.code, len(done.lines)) == (0, 1)
    assert done.lines[0].startswith("lonely.yaml:7:5: GR-002: warning: ")


def test_a_workflow_in_code_is_checked_with_its_warnings_where_it_was_built_or_not(texts: Cli) -> None:
    written(texts, "code.py", CODE)
    for name in ("built", "unbuilt"):
        done = texts("flow", "check", f"code.py:{name}")
        told = [line.rpartition(": ")[0] for line in done.lines]
        assert (done.code, done.err) == (0, "")
        assert told == [f"code.py:{name}: nodes[{place}]: GR-002: warning" for place in (0, 1)]
    found, _ = texts("flow", "check", "code.py:built", "--json").json["diagnostics"]
    assert (found["code"], found["path"], found["line"]) == ("GR-002", "nodes[0]", None)
    assert texts("flow", "check", "app.py:inner").lines == ["app.py:inner: nothing is wrong"]

    cycle = texts("flow", "check", "code.py:cycle")
    assert cycle.code == 1
    assert [line.split(": ")[2] for line in cycle.lines] == ["GR-004"]
    assert "is an agent, and only workflows are checked: name one" in texts("flow", "check", "app.py:critic").err
    assert "brings its own code" in texts("flow", "check", "code.py:built", *USE).err
    assert texts("flow", "check", "none.py").code == 2


def test_the_schema_is_printed(texts: Cli) -> None:
    assert texts("flow", "schema").json == flow_schema()


def test_a_workflow_is_drawn_from_its_file_without_its_code(texts: Cli) -> None:
    assert texts("flow", "draw", "flow.yaml").lines == [
        "publish",
        "",
        "parse   function",
        "  > review",
        "review  human",
        "  > index",
        "index   tool",
    ]
    assert texts("flow", "draw", "app.py:inner").lines == ["inner", "", "same  function"]
    assert texts("flow", "draw", "app:inner").lines[0] == "inner"
    cycle = written(texts, "cycle.yaml", FLOW.replace("review > index", "review > index > parse"))
    (why,) = refused(texts, "flow", "draw", cycle)
    assert why.startswith("cycle.yaml:8:")
    (why,) = refused(texts, "flow", "draw", "app.py:critic")
    assert why == "app.py:critic is an agent, and only workflows are drawn: name one, as FILE.py:NAME"
    (why,) = refused(texts, "flow", "draw", "nobody")
    assert why.startswith("there is no store")


def test_a_hostile_name_moves_no_cursor(texts: Cli) -> None:
    hostile = json.dumps({**yaml.safe_load(FLOW), "name": "\x1b[2J\nINJECTED</title>"})
    drawn = texts("flow", "draw", written(texts, "hostile.json", hostile), "--out", "hostile.txt")
    assert (drawn.code, drawn.err) == (0, "")
    assert (texts.folder / "hostile.txt").read_text().splitlines()[:2] == ["\\x1b[2J INJECTED</title>", ""]
    assert "\x1b" not in texts("flow", "draw", "hostile.json", "--svg").out
    asked = texts("run", "hostile.json", GIVEN, *USE, "--id", "h")
    assert (asked.code, "\x1b" in asked.out) == (4, False)
    assert texts("flow", "draw", "h").lines[0] == "flow:h, \\x1b[2J INJECTED</title>: waiting"


@pytest.mark.acceptance("7.5-3")
def test_a_run_is_drawn_with_what_became_of_each_node(texts: Cli) -> None:
    texts("run", "flow.yaml", GIVEN, *USE, "--id", "app.py")
    drawn = texts("flow", "draw", "flow:app.py")
    assert (drawn.code, drawn.err) == (0, "")
    assert drawn.lines == [
        "flow:app.py, publish: waiting",
        "",
        "parse   function  ran once",
        "  > review",
        "review  human     waiting",
        "  > index",
        "index   tool      not reached",
    ]
    data = texts("flow", "draw", "flow:app", "--json").json
    assert (data["flowId"], data["status"], data["nodes"][1]["mark"]) == ("app.py", "waiting", "waiting")
    assert '    n1["review<br/>human<br/>waiting"]:::waiting' in texts("flow", "draw", "flow:app.py", "--mermaid").lines
    wrote = texts("flow", "draw", "flow:app.py", "--mermaid", "--out", "run.mmd")
    assert wrote.lines == ["wrote run.mmd"]
    assert (texts.folder / "run.mmd").read_text().startswith("flowchart TD\n")
    assert texts("flow", "draw", "flow:app.py", "--svg", "-o", "run.svg").code == 0
    assert (texts.folder / "run.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert texts("flow", "draw", "flow:app.py", "--svg", "--mermaid").code == 2
    away = texts("flow", "draw", "flow:app.py", "-o", "none/run.txt")
    assert (away.code, away.err) == (2, "steptrail: none/run.txt cannot be written: No such file or directory\n")
    assert texts("flow", "draw", "flow:app.py", "--mermaid", "--json").code == 2
    texts("run", "app.py:critic", "hi", "--id", "a")
    assert texts("flow", "draw", "a").err == "steptrail: a is the session of an agent: only workflows are drawn\n"


def test_resources_are_named_in_the_text_and_brought_by_the_code(texts: Cli) -> None:
    text = "steptrail: flow/v1\nname: desk\nresources: desk\nnodes: [{id: ask, kind: function, use: ask_desk}]\n"
    written(texts, "desk.yaml", text)
    done = texts("run", "desk.yaml", "null", *USE, "--id", "d")
    assert (done.code, done.lines[-1]) == (0, '"the desk"')
    assert [line for line in done.lines if line in {"opened", "closed"}] == ["opened", "closed"]
    written(texts, "desks.yaml", text.replace("resources: desk", "resources: desks"))
    refused = texts("run", "desks.yaml", "null", *USE)
    assert (refused.code, refused.out) == (2, "")
    assert "desks.yaml:3:1: FL-105" in refused.err
    assert texts("flow", "check", "desks.yaml", *USE).code == 1
    assert texts("flow", "check", "desk.yaml").code == 0
