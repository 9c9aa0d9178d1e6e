"""What callers and functions give with another type than it says is refused, and the log stays readable."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Limits, Message, Steptrail, ToolEffect, tool
from steptrail.errors import ConfigurationError, NotStorable
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Artifact, Envelope, FailureClass, RunOptions, Update, Workflow
from tests.runner.kit import trail_of

LEAVES = RunOptions(longest_wait=0.0)


@tool(effect=ToolEffect.UNSAFE, approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


PAYER = AgentBuilder("payer").with_model(ScriptedModel([call("pay"), "Paid."])).with_tools(pay).build()
ASKING = Workflow("t").human("ask", prompt="?").build()

TO_SESSIONS: dict[str, Callable[[Steptrail, str, Any], Awaitable[object]]] = {
    "pause, by": lambda trail, _, wrong: trail.session("s").pause(by=wrong),
    "pause, reason": lambda trail, _, wrong: trail.session("s").pause(reason=wrong),
    "stop, by": lambda trail, _, wrong: trail.session("s").stop(by=wrong),
    "approve, by": lambda trail, approval, wrong: trail.session("s").approve(approval, by=wrong),
    "deny, reason": lambda trail, approval, wrong: trail.session("s").deny(approval, by="ana", reason=wrong),
}

TO_FLOWS: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "answer, approved": lambda trail, wrong: trail.flow("f").answer("ask", approved=wrong, by="ana"),
    "answer, by": lambda trail, wrong: trail.flow("f").answer("ask", approved=True, by=wrong),
    "answer, notes": lambda trail, wrong: trail.flow("f").answer("ask", approved=True, notes=wrong, by="ana"),
    "answer, choice": lambda trail, wrong: trail.flow("f").answer("ask", approved=True, choice=wrong, by="ana"),
    "answer, key": lambda trail, wrong: trail.flow("f").answer("ask", approved=True, key=wrong, by="ana"),
    "pause, by": lambda trail, wrong: trail.flow("f").pause(by=wrong),
    "stop, reason": lambda trail, wrong: trail.flow("f").stop(reason=wrong),
}


@pytest.mark.parametrize("command", TO_SESSIONS)
@pytest.mark.parametrize("wrong", [5, ["ana"], 1.5])
async def test_a_session_stores_nothing_that_cannot_be_read_again(command: str, wrong: object) -> None:
    async with trail_of() as trail:
        result = await trail.run(PAYER, "Pay.", session="s")
        stored = await trail.session("s").events()
        (held,) = result.state.tool_executions
        assert held.approval is not None
        with pytest.raises(ConfigurationError, match=f"{command.partition(', ')[2]}: Expected `str"):
            await TO_SESSIONS[command](trail, held.approval.id, wrong)
        assert await trail.session("s").events() == stored


@pytest.mark.parametrize("command", TO_FLOWS)
@pytest.mark.parametrize("wrong", [5, ["yes"], 1.5])
async def test_a_run_of_a_workflow_stores_nothing_that_cannot_be_read_again(command: str, wrong: object) -> None:
    async with trail_of() as trail:
        await trail.run(ASKING, session="f", options=LEAVES)
        stored = await trail.flow("f").events()
        with pytest.raises(ConfigurationError, match=f"{command.partition(', ')[2]}: Expected `(str|bool)"):
            await TO_FLOWS[command](trail, wrong)
        assert await trail.flow("f").events() == stored


@pytest.mark.parametrize("command", [each for each in TO_SESSIONS if each.endswith("by")])
@pytest.mark.parametrize("nobody", ["", " \t"])
async def test_nobody_can_neither_ask_nor_answer_a_session(command: str, nobody: str) -> None:
    async with trail_of() as trail:
        result = await trail.run(PAYER, "Pay.", session="s")
        stored = await trail.session("s").events()
        (held,) = result.state.tool_executions
        assert held.approval is not None
        with pytest.raises(ConfigurationError, match=r"by says for the record who .* it must not be empty"):
            await TO_SESSIONS[command](trail, held.approval.id, nobody)
        assert await trail.session("s").events() == stored


@pytest.mark.parametrize("command", [each for each in TO_FLOWS if each.endswith("by")])
async def test_nobody_can_neither_ask_nor_answer_a_run_of_a_workflow(command: str) -> None:
    async with trail_of() as trail:
        await trail.run(ASKING, session="f", options=LEAVES)
        stored = await trail.flow("f").events()
        with pytest.raises(ConfigurationError, match=r"by says for the record who .* it must not be empty"):
            await TO_FLOWS[command](trail, "")
        assert await trail.flow("f").events() == stored


@pytest.mark.parametrize("command", ["pause", "stop", "unpause"])
async def test_an_empty_key_is_no_key_of_a_request(command: str) -> None:
    async with trail_of() as trail:
        await trail.run(PAYER, "Pay.", session="s")
        await trail.run(ASKING, session="f", options=LEAVES)
        for run in (trail.session("s"), trail.flow("f")):
            stored = await run.events()
            with pytest.raises(ConfigurationError, match="key: it is empty"):
                await getattr(run, command)(by="ana", key=" ")
            assert await run.events() == stored


async def test_a_key_is_a_text() -> None:
    wrong: Any = 17
    async with trail_of() as trail:
        for runnable in (PAYER, ASKING):
            with pytest.raises(ConfigurationError, match="key: Expected `str"):
                await trail.run(runnable, "Pay.", key=wrong)
        assert not await trail.runs()


WRONG_UPDATES: dict[str, tuple[dict[str, Any], str]] = {
    "set is a list": ({"set": ["draft"]}, "set: expected a mapping, not list"),
    "set is nothing": ({"set": None}, "set: expected a mapping, not None"),
    "unset is nothing": ({"unset": None}, "unset: expected a tuple, not None"),
    "unset is a text": ({"unset": "draft"}, "unset: expected a tuple, not str"),
    "unset holds a number": ({"unset": (1,)}, "unset[0]: expected str, not int"),
    "messages is a text": ({"messages": "Done."}, "messages: expected a tuple, not str"),
    "messages holds a text": ({"messages": ["Done."]}, "messages[0]: expected Message, not str"),
    "artifacts holds an object": ({"artifacts": [{"id": "a"}]}, "artifacts[0]: expected Artifact, not dict"),
    "an id is a number": ({"artifacts": [Artifact(id=cast("str", 5))]}, "Artifact: id: Expected `str`, got `int`"),
    "half a character": ({"messages": [Message.user("\ud800")]}, "text that is not valid Unicode"),
}


@pytest.mark.parametrize("wrong", WRONG_UPDATES)
async def test_an_update_that_could_not_be_read_again_fails_its_node(wrong: str) -> None:
    fields, said = WRONG_UPDATES[wrong]
    flow = Workflow("t").function("a", lambda _: Update("done", **fields)).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=LEAVES)
        assert result.error is not None
        assert (result.status.value, result.error.failure) == ("failed", FailureClass.VALIDATION)
        assert said in result.error.message
        assert (await trail.flow("f").state()).version == result.state.version


async def test_an_update_may_hold_lists_as_well() -> None:
    told: Any = [Message.user("Done.")]
    flow = Workflow("t").function("a", lambda _: Update("done", messages=told, unset=cast("Any", ["b"]))).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", vars={"b": 1})
    assert [message.text for message in result.envelope.messages] == ["Done."]
    assert result.envelope.vars == {"a_output": "done"}


class Translated(str):
    """A text of a library, which is a text and has no JSON form of its own."""

    __slots__ = ()


async def test_texts_of_a_class_of_their_own_are_stored_as_plain_ones() -> None:
    by, key, reason = Translated("ana"), Translated("order-7"), Translated("zu teuer")
    async with trail_of() as trail:
        await trail.run(PAYER, "Pay.", session="s", by=by, key=key)
        again = await trail.run(PAYER, "Pay.", session="s", by="ana", key="order-7")
        assert again.state.fold.executions == 1
        await trail.session("s").pause(by=by, key=Translated("p"), reason=reason)
        (held,) = (await trail.session("s").state()).tool_executions
        assert held.approval is not None
        await trail.session("s").deny(held.approval.id, by=by, key=Translated("d"), reason=reason)
        await trail.run(ASKING, session="f", options=LEAVES, key=key)
        await trail.flow("f").answer(Translated("ask"), approved=True, by=by, notes=reason)
        assert await trail.session("s").history()
        assert await trail.flow("f").history()


def fails(seen: Envelope) -> object:
    raise ValueError(seen.input)


FAILING = Workflow("t").function("f", fails).build()
LIMITS, POLICY = Limits(max_steps=7), ErrorPolicy(max_retries=2)
FOREIGN: Any = object()
FOR_ANOTHER: dict[str, Callable[[Steptrail], Awaitable[object]]] = {
    "limits: Expected `Limits`, got `ErrorPolicy`": lambda trail: trail.session("s").resume(PAYER, limits=_any(POLICY)),
    "limits: Expected `Limits`, got `object`": lambda trail: trail.session("s").resume(PAYER, limits=FOREIGN),
    "error_policy: Expected `ErrorPolicy`, got `Limits`": (
        lambda trail: trail.session("s").resume(PAYER, error_policy=_any(LIMITS))
    ),
    "options: Expected `RunOptions`, got `Limits`": lambda trail: trail.flow("f").retry(FAILING, options=_any(LIMITS)),
    "options: Expected `RunOptions`, got `ErrorPolicy`": (
        lambda trail: trail.flow("f").resume(FAILING, options=_any(POLICY))
    ),
    "by: Expected `str`, got `int`": lambda trail: trail.flow("f").resume(FAILING, by=_any(5)),
    "`int`": lambda trail: trail.session("e").resume(PAYER, limits=_any(5)),
    "must not be empty": lambda trail: trail.session("e").resume(PAYER, by=""),
}


def _any(value: object) -> Any:
    return value


@pytest.mark.parametrize("said", FOR_ANOTHER)
async def test_settings_of_another_kind_are_refused(said: str) -> None:
    async with trail_of() as trail:
        await trail.run(PAYER, "Pay.", session="s")
        await trail.run(AgentBuilder("done").with_model(ScriptedModel(["Done."])).build(), "Go.", session="e")
        await trail.run(FAILING, session="f")
        stored = [await trail.session("s").events(), await trail.flow("f").events()]
        with pytest.raises(ConfigurationError, match=said):
            await FOR_ANOTHER[said](trail)
        assert [await trail.session("s").events(), await trail.flow("f").events()] == stored


async def test_half_a_character_where_no_text_belongs_is_refused() -> None:
    half: Any = "\ud83d"
    async with trail_of() as trail:
        with pytest.raises(NotStorable, match=r"^at new: text that is not valid Unicode"):
            await trail.run(PAYER, "Pay.", new=half)
        with pytest.raises(ConfigurationError, match=r"ErrorPolicy.*on_tool_error.*Expected valid Unicode"):
            ErrorPolicy(on_tool_error=half)


async def tells(_: object) -> None:
    """Would be told, if anybody awaited it."""


WATCHED: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "on_commit of run": lambda trail, told: trail.run(PAYER, "Pay.", session="s", on_commit=told),
    "on_update of run": lambda trail, told: trail.run(PAYER, "Pay.", session="s", on_update=told),
    "on_commit of start": lambda trail, told: trail.start(PAYER, "Pay.", session="s", on_commit=told),
    "on_commit of a session": lambda trail, told: trail.session("s", on_commit=told).send(PAYER, "Pay."),
    "on_update of a session": lambda trail, told: trail.session("s", on_update=told).send(PAYER, "Pay."),
    "on_commit of a workflow": lambda trail, told: trail.run(FAILING, session="s", on_commit=told),
    "on_update of a workflow": lambda trail, told: trail.run(FAILING, session="s", on_update=told),
}


@pytest.mark.parametrize("where", WATCHED)
async def test_what_is_to_be_told_of_a_run_is_a_function_that_nobody_awaits(where: str) -> None:
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=f"`{where.split()[0]}` is a function, not int"):
            await WATCHED[where](trail, 5)
        with pytest.raises(ConfigurationError, match=f"`{where.split()[0]}` is a plain function"):
            await WATCHED[where](trail, tells)
        assert not await trail.runs()
