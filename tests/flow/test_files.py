"""Files in a workflow: values stand for them, functions and models get their bytes, a digest alone opens none."""

from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.files import files_in, reference_to
from steptrail.domain.flow.events import NodeAttemptCompleted, NodeAttemptSettledLate
from steptrail.domain.flow.files import form_of
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.errors import ConfigurationError, FileUnreadable, OwnershipLost, StoreAway
from steptrail.messages import File, Image, Message
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ToolReply
from steptrail.workflow import (
    Artifact,
    BuiltWorkflow,
    Cache,
    Case,
    Envelope,
    FlowResult,
    FlowTool,
    NodeContext,
    RetryPolicy,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import LEAVES, World, run_to_rest
from tests.processes.agents.interposed import Interposed
from tests.processes.scene import once
from tests.runner.kit import HandClock, again_on, crash_at, dies, trail_of

CUPS = Image.from_bytes(b"\x89PNG\r\n\x1a\ncups", name="cups.png")
NOTE = File.from_bytes(b"tea", "text/plain", name="n.txt")


class Looking(ScriptedModel):
    """Keeps the texts and the bytes that it is shown, call by call."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(list(answers))
        self.seen: list[list[str | bytes]] = []

    async def infer(self, request: ModelRequest) -> ModelReply:
        parts = [part for _, part in files_in(tuple(request.messages))]
        said: list[str | bytes] = [message.text for message in request.messages]
        self.seen.append([*said, *[await request.read(part.digest) for part in parts]])
        return await super().infer(request)


async def ran(flow: Workflow, given: object = None, **options: Any) -> FlowResult:
    async with trail_of(HandClock()) as trail:
        return await trail.run(flow.build(), given, session="f", **options)


def only(seen: Envelope) -> Any:
    return seen.input["photo"]


@pytest.mark.acceptance("8.9-7")
async def test_a_prompt_that_names_a_file_says_it_in_words_and_shows_it_to_the_model() -> None:
    model, router = Looking("Three."), Looking("tea")
    flow = (
        Workflow("w")
        .llm(
            "look", model, system="{{ input.photo }}", prompt="How many on {{ input.photo }}, {{ vars.x }}?", output="n"
        )
        .llm_router("which", router, prompt="{{ input }}", routes={"tea": "end"})
        .noop("end")
        .chain("look", "which", "end")
    )
    result = await ran(flow, {"photo": CUPS, "notes": [NOTE, NOTE]}, vars={"x": {"deep": [NOTE]}})
    assert (result.status, result.envelope.vars["n"]) == ("completed", "Three.")
    system, text, *shown = model.seen[0]
    assert system == "[image/png, 12 bytes, cups.png]"
    assert text == 'How many on [image/png, 12 bytes, cups.png], {"deep":["[text/plain, 3 bytes, n.txt]"]}?'
    assert shown == [CUPS.data, b"tea"]
    assert router.seen[0][1:] == [CUPS.data, b"tea"]


async def test_messages_of_a_node_show_files_of_the_user_alone() -> None:
    model = Looking("ok")
    messages: list[dict[str, JsonValue]] = [
        {"role": "user", "content": "{{ input }}"},
        {"role": "assistant", "content": "A {{ input }}"},
    ]
    await ran(Workflow("w").llm("look", model, messages=messages), NOTE)
    assert model.seen == [["[text/plain, 3 bytes, n.txt]", "A [text/plain, 3 bytes, n.txt]", b"tea"]]


@pytest.mark.acceptance("8.9-8")
async def test_functions_read_files_and_return_others_in_all_that_they_return() -> None:
    async def cut(seen: Envelope, context: NodeContext) -> Update:
        photo = await context.file(seen.input["photo"])
        assert (photo, photo.data) == (CUPS, CUPS.data)
        small = Image.from_bytes((photo.data or b"")[:9], name="small.png")
        message = Message.user("", small, reference_to(CUPS))
        return Update(small, set={"list": [NOTE]}, messages=(message,), artifacts=(Artifact(id="a", file=small),))

    def count(seen: Envelope, context: NodeContext) -> int:
        held = [seen.vars["small"], seen.vars["list"][0], *seen.messages[0].files, seen.artifacts[0].file]
        return sum(len(context.file_now(each).data or b"") for each in held)

    flow = Workflow("w", result="sum").function("cut", cut, output="small").function("count", count, output="sum")
    result = await ran(flow.chain("cut", "count"), {"photo": CUPS})
    assert result.output == 9 + 3 + 9 + 12 + 9, result
    assert result.envelope.get("small.mime_type") == "image/png"
    assert result.envelope.artifacts[0].file == FilePart(
        digest=result.envelope.vars["small"]["digest"], mime_type="image/png", size=9, filename="small.png"
    )


class Scan(BaseModel):
    page: int
    image: File


async def test_a_file_in_a_model_of_a_function_brings_its_bytes_too() -> None:
    flow = Workflow("w").function("scan", lambda _: [Scan(page=1, image=NOTE)], output="scans")
    async with trail_of(HandClock()) as trail:
        result = await trail.run(flow.build(), session="f")
        assert result.files == (NOTE,)
        assert (await trail.flow("f").file(result.output[0]["image"])).data == b"tea"


async def test_a_value_is_a_file_only_where_the_run_came_with_it() -> None:
    model = Looking("ok", "ok")

    def out_of_nowhere(_: Envelope) -> JsonValue:
        return form_of(CUPS)

    flow = Workflow("w").function("a", out_of_nowhere, output="a").llm("b", model, prompt="{{ a }}").chain("a", "b")
    async with trail_of(HandClock()) as trail:
        await trail.run(Workflow("mine").noop("a").build(), CUPS, session="mine")
        result = await trail.run(flow.build(), session="f")
        assert (result.files, len(model.seen[0])) == ((), 1)
        for named in (result.envelope.vars["a"], CUPS.digest, CUPS, reference_to(CUPS)):
            with pytest.raises(FileUnreadable, match="nothing in run flow:f names it"):
                await trail.flow("f").file(named)
        with pytest.raises(ConfigurationError, match="stands for no file of run flow:f"):
            await trail.flow("f").file({"kind": "file"})
        for given in ({"deep": [form_of(CUPS)]}, {"deep": reference_to(CUPS)}):
            with pytest.raises(
                ConfigurationError, match=r"input: the file \[image/png, .*\] is named without its bytes"
            ):
                await trail.run(flow.build(), given, session="g")
            with pytest.raises(ConfigurationError, match="vars: the file"):
                await trail.run(flow.build(), vars=given, session="g")
        with pytest.raises(ConfigurationError, match="artifacts: the file"):
            await trail.run(flow.build(), artifacts=(Artifact(id="a", file=reference_to(CUPS)),), session="g")
        # A run of the same stream has it, and so may its next one.
        again = await trail.run(flow.build(), {"photo": CUPS}, session="f")
        again = await trail.run(flow.build(), {"photo": again.envelope.input["photo"], "n": 2}, session="f")
        assert again.status == "completed"


@pytest.mark.parametrize(
    "returned",
    [
        reference_to(CUPS),
        Update(set={"a": [reference_to(CUPS)]}),
        Update(messages=(Message.user("", reference_to(CUPS)),)),
        Update(messages=(Message.assistant("a").__class__(role="assistant", parts=(NOTE,)),)),  # type: ignore[arg-type]
        Update(artifacts=(Artifact(id="a", file=reference_to(CUPS)),)),
    ],
)
async def test_a_function_that_returns_a_file_of_nobody_has_failed(returned: object) -> None:
    result = await ran(Workflow("w").function("a", lambda _: returned))
    assert result.error is not None
    assert (result.error.failure, "file" in result.error.message) == ("validation", True), result.error


async def test_a_function_that_awaits_is_told_how_it_reads_a_file_and_one_of_no_run_too() -> None:
    async def wrong(seen: Envelope, context: NodeContext) -> None:
        context.file_now(seen.input)

    result = await ran(Workflow("w").function("a", wrong), NOTE)
    assert "await context.file" in str(result.error)
    alone = NodeContext(effect_id="e", flow_id="f", execution_id="x", node="n", visit=1, attempt=1)
    with pytest.raises(ConfigurationError, match="belongs to no run"):
        await alone.file(form_of(NOTE))


@tool(effect=ToolEffect.READ)
def look(at: str) -> object:
    """Look."""
    return {"one": NOTE, "all": [CUPS, NOTE], "reply": ToolReply({"lit": True}, CUPS)}[at]


async def test_a_tool_hands_on_its_files_and_a_map_and_a_cache_keep_them() -> None:
    flow = (
        Workflow("w")
        .map("look", over="input", tool=look, args={"at": "{{ item }}"}, cache=Cache(key=("item",)), output="seen")
        .function("one", lambda _: CUPS, output="left")
        .function("two", lambda _: NOTE, output="right")
        .merge("join", strategy="json", output="joined")
        .transform("pick", "pick", source="joined", keys=["left"], output="picked")
        .edge("look", "one", "two")
        .edge(("one", "two"), "join")
        .chain("join", "pick")
    )
    async with trail_of(HandClock()) as trail:
        result = await trail.run(flow.build(), ["one", "all", "reply", "one"], session="f")
        cups, note = form_of(CUPS), form_of(NOTE)
        assert result.envelope.vars["seen"] == [note, [cups, note], {"result": {"lit": True}, "files": [cups]}, note]
        assert result.envelope.vars["joined"] == {"left": cups, "right": note}
        assert result.files == (CUPS,), result
        assert (await trail.flow("f").file(result.files[0])).data == CUPS.data


async def test_streams_below_get_the_files_and_give_them_back() -> None:
    model, inner_model = Looking("Three."), Looking("Two.")
    clerk = AgentBuilder("clerk").with_model(model).build()
    inner = (
        Workflow("inner", result="out")
        .llm("say", inner_model, prompt="{{ input.photo }}")
        .function("cut", lambda seen: [File.from_bytes(b"cut"), seen.input["photo"]], output="out")
        .chain("say", "cut")
        .build()
    )
    flow = (
        Workflow("outer")
        .agent("ask", clerk, prompt="Look at {{ input.photo }}", output="said")
        .flow("below", inner, input={"photo": "{{ input.photo }}"}, output="made")
        .llm("last", Looking("end"), prompt="{{ made }}", output="last")
        .chain("ask", "below", "last")
    )
    async with trail_of(HandClock()) as trail:
        result = await trail.run(flow.build(), {"photo": CUPS}, session="f")
        assert result.status == "completed", result
        assert model.seen == [["Look at [image/png, 12 bytes, cups.png]", CUPS.data]]
        assert inner_model.seen == [["[image/png, 12 bytes, cups.png]", CUPS.data]]
        cut = await trail.flow("f").file(result.envelope.vars["made"][0])
        assert (cut.data, cut.mime_type) == (b"cut", "application/octet-stream")


async def test_an_agent_is_shown_the_files_of_a_workflow_that_is_its_tool() -> None:
    flow = Workflow("scan", description="Scan.").function("cut", lambda _: {"pages": [NOTE]}, output="out").build()
    model = Looking(call("scan"), "Tea.")
    agent = AgentBuilder("clerk").with_model(model).with_tools(FlowTool(flow)).build()
    async with trail_of(HandClock()) as trail:
        result = await trail.run(agent, "Scan it.", session="s")
        (ran,) = result.state.steps[0].tool_executions
        assert (ran.result, ran.files) == ({"pages": ["[text/plain, 3 bytes, n.txt]"]}, (NOTE,))
        assert model.seen[1][-1] == b"tea"
        assert (await trail.session("s").file(NOTE.digest)).data == b"tea"


@pytest.mark.acceptance("8.9-9")
async def test_people_answer_with_files_and_set_and_report_them() -> None:
    @tool(effect=ToolEffect.UNSAFE)
    def act() -> str:
        """Act."""
        raise AssertionError

    model = Looking("ok")
    flow = (
        Workflow("w")
        .human("ask", prompt="A scan of {{ input }}?", type="input", output="said")
        .llm("look", model, prompt="{{ said.data.scan }} {{ vars.held }}")
        .chain("ask", "look")
        .build()
    )
    async with trail_of(HandClock()) as trail:
        handle, options = trail.flow("f"), RunOptions(longest_wait=0.0, pause_before=("look",))
        asked = await trail.run(flow, CUPS, session="f", options=options)
        assert asked.state.tasks[0].request is not None
        assert asked.state.tasks[0].request.prompt == "A scan of [image/png, 12 bytes, cups.png]?"
        with pytest.raises(ConfigurationError, match="data: the file"):
            await handle.answer("ask", by="ana", data=form_of(NOTE))
        await handle.answer("ask", by="ana", data={"scan": NOTE}, key="k")
        await handle.answer("ask", by="ana", data={"scan": NOTE}, key="k")
        await handle.resume(flow)
        with pytest.raises(ConfigurationError, match="set: the file"):
            await handle.step("look", "continue", by="ana", set={"held": form_of(File.from_bytes(b"x"))})
        await handle.step("look", "continue", by="ana", set={"held": File.from_bytes(b"held", "text/plain")})
        assert (await handle.resume(flow)).status == "completed"
        assert model.seen[0][1:] == [b"tea", b"held"]


async def test_a_run_begins_with_files_in_messages_artifacts_and_variables_and_a_map_goes_over_them() -> None:
    model = Looking("one", "two", "three", "four")
    flow = (
        Workflow("w")
        .map("each", over="artifacts", model=model, prompt="{{ item.file }}", concurrency=1)
        .llm("said", model, prompt="{{ messages }}")
        .llm("more", model, prompt="{{ more }}")
        .chain("each", "said", "more")
    )
    begun: dict[str, Any] = {
        "messages": (Message.user("Look:", CUPS),),
        "artifacts": (Artifact(id="a", file=NOTE), Artifact(id="b", file=CUPS)),
        "vars": {"more": {"a": [NOTE], "b": CUPS}},
    }
    result = await ran(flow, **begun)
    assert result.status == "completed", result
    assert [shown[1:] for shown in model.seen] == [[b"tea"], [CUPS.data], [CUPS.data], [b"tea", CUPS.data]]


async def test_a_run_with_a_file_is_found_by_it_and_another_file_of_the_same_words_is_another_input() -> None:
    other, world = Image.from_bytes(b"\x89PNG\r\n\x1a\nsups", name="cups.png"), World()
    flow = Workflow("w").function("a", world.function("a"), output="a").build()
    async with trail_of(HandClock()) as trail:
        await trail.run(flow, {"photo": CUPS}, session="f")
        assert (await trail.run(flow, {"photo": CUPS}, session="f")).stored
        assert not (await trail.run(flow, {"photo": other}, session="f")).stored
        assert world.done["a"] == 2


async def test_a_damaged_file_fails_the_node_and_a_store_that_is_away_leaves_the_run_open() -> None:
    class Away(Interposed):
        gone: Exception | None = StoreAway("the server of the store is away")

        async def file(self, digest: str) -> bytes | None:
            if self.gone is not None:
                raise self.gone
            return None

    store, model = Away(), Looking("Three.")
    flow = Workflow("w").llm("look", model, prompt="{{ input }}", retry=RetryPolicy(max_attempts=1)).build()
    async with Steptrail(Environment(store=store)) as trail:
        with pytest.raises(StoreAway):
            await trail.run(flow, CUPS, session="f", options=LEAVES)
        assert (await trail.flow("f").state()).is_open
        store.gone = None
        result = await trail.flow("f").resume(flow)
        assert result.error is not None
        assert (result.error.failure, CUPS.digest in result.error.message) == ("model", True), result.error


@pytest.mark.parametrize(("effect", "fails"), [("read", False), ("unsafe", True)])
async def test_a_function_that_a_store_gives_no_file_for_now_leaves_the_run_open_unless_it_is_unsafe(
    effect: Any, fails: bool
) -> None:
    class Away(Interposed):
        is_away = True

        async def file(self, digest: str) -> bytes | None:
            if self.is_away:
                raise StoreAway("the server of the store is away")
            return await super().file(digest)

    store = Away()
    flow = Workflow("w").function("a", lambda seen, context: context.file_now(seen.input).size, effect=effect).build()
    async with Steptrail(Environment(store=store)) as trail:
        if fails:
            assert "is away" in str((await trail.run(flow, CUPS, session="f")).error)
            return
        with pytest.raises(StoreAway):
            await trail.run(flow, CUPS, session="f")
        store.is_away = False
        assert (await trail.flow("f").resume(flow)).output == 12


async def test_a_question_about_another_file_of_the_same_words_is_another_question() -> None:
    other = Image.from_bytes(b"\x89PNG\r\n\x1a\nsups", name="cups.png")
    flow = Workflow("w").human("ask", prompt="Is {{ input }} tea?", type="approval").build()
    async with trail_of(HandClock()) as trail:
        for name, photo in (("f", CUPS), ("g", other)):
            await trail.run(flow, photo, session=name, options=LEAVES)
        one, two = [question.digest for question in await trail.inbox()]
    assert one != two


@pytest.mark.parametrize("point", ["before-append", "after-append", "before-node", "after-node"])
async def test_a_crash_at_any_point_loses_no_file_and_names_none_that_is_not_there(point: str) -> None:
    def cut(seen: Envelope, context: NodeContext) -> File:
        return File.from_bytes((context.file_now(seen.item).data or b"")[:2], name=seen.item["filename"])

    def flow(model: Looking) -> BuiltWorkflow:
        return (
            Workflow("w", result="cuts")
            .map("cut", over="input", function=cut, output="cuts")
            .llm("look", model, prompt="{{ vars.cuts }} {{ input }}")
            .chain("cut", "look")
            .build()
        )

    deaths = {"before-append": 4, "after-append": 4, "before-node": 3, "after-node": 3}[point]
    for number in range(1, deaths + 2):
        clock, model = HandClock(), Looking("ok", "ok")
        async with trail_of(clock) as trail:
            with dies(number, deaths):
                await run_to_rest(again_on(trail, clock, crash_at(point, number)), clock, flow(model), [CUPS, NOTE])
            result = await run_to_rest(trail, clock, flow(model), [CUPS, NOTE])
            assert result.status == "completed", (point, number)
            assert [part.filename for part in result.files] == ["cups.png", "n.txt"]
            assert [(await trail.flow("f").file(part)).data for part in result.files] == [b"\x89P", b"te"]
            assert model.seen[-1][1:] == [b"\x89P", b"te", CUPS.data, b"tea"]


async def test_a_file_of_a_try_that_was_taken_over_is_stored_with_the_report_of_it() -> None:
    store = Interposed()
    owner, other = Steptrail(Environment(store=store)), Steptrail(Environment(store=store.inner))

    def cut(seen: Envelope, context: NodeContext) -> File:
        return File.from_bytes(b"try %d" % context.attempt)

    flow = Workflow("w").function("cut", cut).build()

    async def take_over() -> None:
        await other.flow("f").resume(flow, take_over=True)

    store.before_append = once(take_over, NodeAttemptCompleted)
    with pytest.raises(OwnershipLost):
        await owner.run(flow, session="f")
    late = [record.event for record in await other.flow("f").events()][-1]
    assert isinstance(late, NodeAttemptSettledLate)
    assert await store.inner.file(late.files[0].digest) == b"try 1"
    (part,) = (await other.flow("f").result()).files
    assert (await other.flow("f").file(part)).data == b"try 2"


async def test_expressions_see_what_a_file_is() -> None:
    cases = [Case("input.photo.mime_type.startsWith('image/') && input.photo.size < 100", to="yes")]
    flow = Workflow("w").conditional("is", cases, default="no").noop("yes").noop("no").edge("is", "yes", "no")
    result = await ran(flow, {"photo": CUPS})
    assert result.envelope.vars["is_decision"]["targets"] == ["yes"]
