"""What must not be shown is hidden before a page is made."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StateView
from steptrail.domain.agent.events import ToolExecutionCompleted, ToolExecutionFailed
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.inspector import Access, inspector
from steptrail.interfaces.cli.kinds import summary_of
from steptrail.interfaces.http.inspector.events import chunk_of
from steptrail.interfaces.http.inspector.finding import find
from steptrail.messages import Message
from steptrail.projections.masking import HIDDEN, Masking, as_shown
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Workflow
from tests.inspector.conftest import Opened

EVERY = [
    *("/", "/runs", "/inbox", "/runs/asks", "/runs/answered?e=9", "/runs/failed?e=17", "/runs/flow:published?e=4"),
    *(f"/body/answered/{version}" for version in range(1, 26)),
]


async def everything(opened: Opened, **settings: Any) -> str:
    async with opened(**settings) as client:
        return "".join([(await client.get(path)).text for path in EVERY])


async def test_secrets_are_hidden_unasked_and_more_keys_when_named(opened: Opened) -> None:
    plain = await everything(opened)
    assert "sk-live-123456789" not in plain
    assert "hunter2" not in plain
    assert "attic" in plain
    assert "a box of tea" in plain
    masked = await everything(opened, mask_keys=["QUERY", "found"])
    assert HIDDEN in masked
    assert "attic" not in masked
    assert "a box of tea" not in masked


async def test_a_function_of_the_service_says_what_is_shown(opened: Opened) -> None:
    asked = set[str]()

    def mask(key: str, value: JsonValue) -> JsonValue:
        asked.add(key)
        return value.replace("attic", "A****") if isinstance(value, str) else value

    page = await everything(opened, mask=mask)
    assert "attic" not in page
    assert "A****" in page
    assert {"query", "found"} <= asked


def hide(key: str, value: JsonValue) -> JsonValue:
    return HIDDEN


@pytest.mark.parametrize("settings", [{"mask": hide}, {"mask_keys": ["parameters"]}])
async def test_what_is_hidden_as_a_whole_costs_no_page(settings: dict[str, Any]) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.start(AgentBuilder("a").with_model(ScriptedModel(["Done."])).build(), "go", session="s")
        await trail.session("s").stop(by="ana", reason="lunch")
        app = inspector(trail, authorize=lambda _: Access(), **settings)
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            answers = [await client.get(path) for path in ("/runs/s", "/runs/s?e=2", "/find/s?q=go")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert "by ana" in answers[0].text


@pytest.mark.acceptance("8.6-5")
async def test_with_shape_no_value_is_shown_and_all_else_is(opened: Opened, inspected: Path) -> None:
    page = await everything(opened, show="shape")
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        state = await trail.session("answered").state()
    for text in (
        "attic",
        "a box of tea",
        "Where is the tea",
        "Tea.",
        "missing",
        "A-7",
        "Publish &lt;b",
        "did not answer",
    ):
        assert text not in page, text
    assert state.messages[0].text == "Where is the tea?"
    for text in (
        "(text, 17 characters)",
        "search",
        "ErrorPolicyCriterion",
        "values are hidden",
        "steptrail approve asks",
    ):
        assert text in page, text


async def test_with_shape_no_event_shows_what_people_say_beside_its_content() -> None:
    said = [
        f"secret-{what}" for what in ("prompt", "example", "metadata", "changed", "pause", "fork", "vote", "question")
    ]
    prompt, example, metadata, changed, pause, fork, vote, question = said

    class Judge:
        """Says in a sentence why it goes on."""

        def explain(self, state: StateView) -> ContinuationEvaluation:
            return ContinuationEvaluation.from_decision(
                "Judge", ContinuationDecision.ALLOW, reason=vote, context={"read": vote}
            )

    agent = (
        AgentBuilder("a")
        .with_model(ScriptedModel(["One.", "Two."]))
        .with_system_prompt(prompt)
        .with_examples(Message.user(example))
        .with_criteria(Judge())
        .build()
    )
    flow = Workflow("w").human("ask", type="approval", prompt=question).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "go", session="s", metadata={"a": metadata})
        await trail.run(agent, "on", session="s", metadata={"a": changed})
        await trail.session("s").fork(session="forked", by="ana", reason=fork)
        await trail.run(flow, "go", session="w")
        await trail.flow("w").pause(by="ana", reason=pause)
        streams = {"s": "agent:s", "forked": "agent:forked", "flow:w": "flow:w"}
        stored = {
            name: [record async for _, _, record in trail.store.log(stream=each)] for name, each in streams.items()
        }
        everything = str([record.event for records in stored.values() for record in records])
        app = inspector(trail, authorize=lambda _: Access(), show="shape")
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            pages = [
                (await client.get(f"/{word}/{name}{place}{record.version}")).text
                for name, records in stored.items()
                for record in records
                for word, place in (("body", "/"), ("runs", "?e="))
            ]
    assert [each for each in said if each not in everything] == []
    assert [each for each in said if any(each in page for page in pages)] == []
    assert any("ToolCallPresenceCheck" in page and "scripted" in page for page in pages)


def test_what_is_hidden_stays_hidden_in_json_inside_texts() -> None:
    masking = Masking(keys=["ssn"])
    assert masking.value({"told": '{"ssn": "1", "n": [{"SSN": 2}]}'}) == {
        "told": f'{{"ssn": "{HIDDEN}", "n": [{{"SSN": "{HIDDEN}"}}]}}'
    }
    assert masking.text("Authorization: Bearer abcdefghijkl") == "Authorization: …"
    assert masking.value([1, None, True, 2.5, "x"]) == [1, None, True, 2.5, "x"]


def test_a_credential_is_hidden_where_it_is_the_key_of_a_value() -> None:
    tried: JsonValue = {
        "https://ana:hunter2@shop/": 200,
        "https://ben:swordfish@shop/": 403,
        "sk-live-123456789": {"n": 1},
    }
    assert Masking().value([tried]) == [{"https://…@shop/": 200, "https://…@shop/…": 403, "sk-…": {"n": 1}}]
    assert Masking(show="shape").value(tried) == {
        "https://…@shop/": "(number)",
        "https://…@shop/…": "(number)",
        "sk-…": {"n": "(number)"},
    }
    assert Masking(keys=["IBAN"]).value({"iban": 1, "of iban=DE1": 2}) == {"iban": HIDDEN, "of iban=…": 2}


DEEP = 700


@pytest.mark.parametrize(
    "text",
    [
        ' \n{"ssn": "1 23", "n": 4}',
        '["' + "x" * 99_900 + '", {"ssn": "1 23"}, "' + "y" * 1_000 + '"]',
        '{"ssn": "1 23", "n": ' + "[" * DEEP + "]" * DEEP + "}",
        '{"ssn": "1 23", "n": ' + "[" * 5_000 + "]" * 5_000 + "}",
        'It said {"ssn": "1 23"} twice',
        '{"password": "1 23", "password": "…"}',
    ],
    ids=["blanks", "too long", "deep", "too deep", "inside", "twice"],
)
def test_what_is_hidden_stays_hidden_in_texts_that_are_not_looked_into(text: str) -> None:
    shown = Masking(keys=["ssn"]).text(text)
    assert "1 23" not in shown
    assert "…" in shown or HIDDEN in shown


async def test_a_text_that_is_json_nested_too_deeply_costs_no_page() -> None:
    @tool(effect=ToolEffect.READ)
    def look() -> str:
        """Return what a page of somebody else's says."""
        return "[" * DEEP + "]" * DEEP

    agent = AgentBuilder("a").with_model(ScriptedModel([call("look"), "[" * DEEP])).with_tools(look).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "go", session="deep")
        app = inspector(trail, authorize=lambda _: Access())
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            answers = [await client.get(path) for path in ("/runs/deep?e=9", "/state/deep?at=9", "/find/deep?q=look")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]


def test_the_shape_of_a_value_tells_of_which_kind_it_is() -> None:
    shaped = Masking(show="shape").value({"a": "four", "b": [1, True, None], "c": {"d": 2.5}})
    assert shaped == {
        "a": "(text, 4 characters)",
        "b": ["(number)", "(true or false)", None],
        "c": {"d": "(number)"},
    }


@tool(effect=ToolEffect.READ)
def read_customer(number: int) -> object:
    """Read what is known of a customer."""
    fields: JsonValue = [{"name": "iban", "value": f"DE {number}"}]
    raw = json.dumps({"straße": f"Weg {number}", "notes": "n" * 3_000})
    return {"customer": {"name": f"Ana {number}", "notes": "n" * 3_000}, "fields": fields, "raw": raw}


def hide_what_an_object_names(key: str, value: JsonValue) -> JsonValue:
    return {**value, "value": HIDDEN} if isinstance(value, dict) and value.get("name") == "iban" else value


def hide_replies(key: str, value: JsonValue) -> JsonValue:
    return HIDDEN if key == "reply" else value


def hide_parts_that_are_text(key: str, value: JsonValue) -> JsonValue:
    return {**value, "text": HIDDEN} if isinstance(value, dict) and value.get("kind") == "text" else value


@pytest.mark.parametrize(
    ("settings", "hidden"),
    [
        ({"mask_keys": ["customer"]}, "Ana 1"),
        ({"mask_keys": ["straße"]}, "Weg 1"),
        ({"mask": hide_what_an_object_names}, "DE 1"),
        ({"mask_keys": ["reply"]}, "I look at 1"),
        ({"mask": hide_replies}, "I look at 1"),
        ({"mask": hide_parts_that_are_text}, "I look at 1"),
    ],
)
async def test_what_is_hidden_of_events_is_hidden_in_lines_and_states_and_differences(
    settings: dict[str, Any], hidden: str
) -> None:
    script = [call("read_customer", number=1), call("read_customer", number=12), "I look at 1"]
    agent = AgentBuilder("a").with_model(ScriptedModel(script)).with_tools(read_customer).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "go", session="s")
        app = inspector(trail, authorize=lambda _: Access(), **settings)
        places = [f"/state/s?at={at}&from={at - 8}" for at in (9, 17)] if "look" not in hidden else []
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            pages = {place: (await client.get(place)).text for place in (*places, "/runs/s")}
    assert [place for place, page in pages.items() if hidden in page] == []


BLOCKED = ErrorInfo(type=ErrorType.TOOL, error_class="shop:Blocked", message="4711 is blocked")


def hide_what_is_said_of_cards(key: str, value: JsonValue) -> JsonValue:
    if isinstance(value, dict) and value.get("error_class") == "shop:Blocked":
        return {**value, "message": HIDDEN}
    return value


def hide_results(key: str, value: JsonValue) -> JsonValue:
    return HIDDEN if key == "result" else value


@pytest.mark.parametrize(
    ("settings", "event"),
    [
        ({"keys": ["result"]}, ToolExecutionCompleted(position=0, result=4711, duration_seconds=1.0)),
        ({"mask": hide_results}, ToolExecutionCompleted(position=0, result=4711, duration_seconds=1.0)),
        (
            {"mask": hide_what_is_said_of_cards},
            ToolExecutionFailed(position=0, error=BLOCKED, duration_seconds=1.0),
        ),
    ],
    ids=["a number", "a number by a function", "a text of a part that a function knows by its object"],
)
def test_the_line_about_an_event_shows_no_more_of_it_than_its_page(settings: dict[str, Any], event: Event) -> None:
    masking = Masking(**settings)
    shown = masking.event(event)
    assert "4711" not in str(shown)
    line = summary_of("agent:s", as_shown(event, shown))
    assert ("4711" in line, HIDDEN in line) == (False, True)


@pytest.mark.parametrize("masking", [Masking(keys=["arguments", "result"]), Masking(show="shape")])
async def test_a_template_is_given_no_more_of_an_event_than_is_shown(masking: Masking) -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel([call("read_customer", number=4711), "Done."]))
    async with Steptrail.open("sqlite:///:memory:") as trail:
        count = (await trail.run(agent.with_tools(read_customer).build(), "go", session="s")).state.version
        lines = (await chunk_of(trail.store, "agent:s", masking, count=count, chosen=None)).lines
        hits = (await find(trail.store, "agent:s", masking, "inference", first=1, count=count)).hits
    given = [*(line.record for line in lines), *(hit.record for hit in hits)]
    assert len(given) > count
    assert [record.version for record in given if re.search(r"\b4711\b", str(record.event))] == []


async def test_with_shape_a_change_shows_no_credential_that_is_a_key() -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.start(agent, "go", session="s", metadata={"https://ana:hunter2@shop/": 200})
        app = inspector(trail, authorize=lambda _: Access(), show="shape")
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            page = (await client.get("/state/s?at=1&from=0")).text
    assert "hunter2" not in page
    assert "…@shop/" in page


async def test_the_address_of_a_store_stands_on_no_page_with_its_password() -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.start(agent, "go", session="s")
        app = inspector(trail, authorize=lambda _: Access(), store="postgresql://app:hunter2@db/runs")
        async with AsyncClient(transport=ASGITransport(app), base_url="http://here") as client:
            pages = [(await client.get(place)).text for place in ("/runs/s", "/why/s")]
    assert [page for page in pages if "hunter2" in page or "--store" not in page] == []
