"""A file of workflows for the tests of the command line."""

FLOWS = """
import os
import time

from steptrail import AgentBuilder, tool
from steptrail.testing import ScriptedModel
from steptrail.workflow import OnError, RetryPolicy, RunOptions, Workflow

fast = RetryPolicy(backoff=0.001)


@tool(effect="read")
async def lookup(id: int) -> str:
    raise ConnectionError("search.example refused\\x1b[2J\\nthe connection")


@tool(effect="unsafe", approval=True)
async def release(id: int) -> str:
    return f"released {id}"


@tool(effect="unsafe")
def wire(id: int) -> str:
    os._exit(9)


def until_killed(envelope):
    print("begun", flush=True)
    time.sleep(600)


flow = Workflow("double", result="out").function("twice", lambda e: e.input["n"] * 2, output="out").build()
unbuilt = Workflow("unbuilt", result="out").function("same", lambda e: e.input, output="out")
failing = (
    Workflow("failing")
    .tool("index", lookup, args={"id": "{{ input.id }}"}, retry=fast)
    .function("later", lambda e: 1)
    .chain("index", "later")
    .build()
)
tolerant = (
    Workflow("tolerant")
    .tool("index", lookup, args={"id": "{{ input.id }}"}, retry=fast, on_error=OnError.CONTINUE, output="found")
    .function("after", lambda e: e.vars["found_error"])
    .chain("index", "after")
    .build()
)
publish = (
    Workflow("publish", result="receipt")
    .function("parse", lambda e: {"title": e.input["path"]}, output="doc")
    .human("review", type="approval", prompt="Publish {{ vars.doc.title }}?", show=["doc"], expires=86_400)
    .tool("release", release, args={"id": "{{ input.id }}"}, output="receipt")
    .chain("parse", "review", "release")
    .build()
)
choosing = (
    Workflow("choosing")
    .human("pick", type="choice", prompt="Which?", options=["left", "right"])
    .human("fill", type="input", prompt="How many?", output="many")
    .chain("pick", "fill")
    .build()
)
held = (
    Workflow("held", options=RunOptions(pause_before=("last",)))
    .function("last", lambda e: e.vars.get("x"), output="out")
    .build()
)
slow = Workflow("slow").function("rest", until_killed).build()
parked = Workflow("parked", result="sent").tool("wire", wire, args={"id": 1}, output="sent").build()
agent = AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build()
"""
