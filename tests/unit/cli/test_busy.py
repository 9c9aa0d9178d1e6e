"""What a command says of a run that another process has."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from steptrail.infrastructure.store.opening import open_store
from tests.unit.cli.command import Type

APP = """
def twice(envelope):
    return envelope.input * 2
"""
FLOW = """\
steptrail: flow/v1
name: double
result: out
nodes:
  - {id: twice, kind: function, use: twice, output: out}
"""


@contextmanager
def leased(stream: str) -> Generator[None]:
    """Somebody else has the lease as long as the block goes on."""
    with asyncio.Runner() as runner:
        store = open_store("sqlite:///steptrail.db")
        lease = runner.run(store.acquire(stream, owner="another"))
        yield
        runner.run(lease.release())
        runner.run(store.close())


def test_the_command_that_takes_a_workflow_over_brings_its_code_again(typed: Type) -> None:
    Path("app.py").write_text(APP, encoding="utf-8")
    Path("flow.yaml").write_text(FLOW, encoding="utf-8")
    words = ("flow.yaml", "flow:f", "--use", "app.py")
    assert typed("start", "flow.yaml", "21", "--id", "f", "--use", "app.py").code == 0

    with leased("flow:f"):
        busy = typed("resume", *words)

    assert busy.code == 5
    assert busy.err.endswith(
        "`steptrail stop flow:f`, or `steptrail resume flow.yaml flow:f --use app.py --take-over`\n"
    )
    assert typed("resume", *words, "--take-over").lines[-1] == "42"
