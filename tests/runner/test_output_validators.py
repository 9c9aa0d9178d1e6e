"""What validators and types say of an answer: in what order, with which words, and what follows when they break."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter

from steptrail.events import AnswerAccepted, AnswerRejected
from steptrail.output import OutputContext, OutputMode, OutputRejected
from steptrail.testing import call
from tests.runner.invoices import GOOD, INVOICE, Invoice, clerk
from tests.runner.kit import run


@dataclass
class Point:
    x: int
    y: int = 0


class TestValidators:
    async def test_they_run_in_order_may_change_the_answer_and_may_be_coroutines(self) -> None:
        seen: list[tuple[int, OutputMode, str]] = []

        async def first(invoice: Invoice, context: OutputContext) -> Invoice:
            await asyncio.sleep(0)
            seen.append((context.attempt, context.mode, context.state.agent_id))
            if context.attempt == 1:
                raise OutputRejected("the books know no 7")
            return invoice.model_copy(update={"number": "8"})

        def second(invoice: Invoice, context: OutputContext) -> Invoice:
            return invoice.model_copy(update={"number": invoice.number + "!"})

        done = await run(clerk(GOOD, GOOD).with_output(Invoice).with_output_validator(first, second).build())
        assert done.result.output == Invoice(number="8!", lines=INVOICE.lines)
        assert done.one(AnswerAccepted).is_changed
        assert str(done.one(AnswerRejected).problems[0]) == "the books know no 7"
        assert seen == [(1, OutputMode.NATIVE, "s"), (2, OutputMode.NATIVE, "s")]
        recorded = done.result.state.agent
        assert recorded is not None
        assert recorded.output is not None
        assert [name.rpartition(".")[2] for name in recorded.output.validators] == ["first", "second"]

    async def test_one_that_raises_anything_else_is_a_broken_hook(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(invoice: Invoice, context: OutputContext) -> Invoice:
            raise RuntimeError("no books")

        with caplog.at_level(logging.WARNING, "steptrail.runs"):
            done = await run(clerk(GOOD).with_output(Invoice).with_output_validator(broken).build())
        assert done.ending == ("failed", "error")
        assert done.result.error is not None
        assert (done.result.error.message, done.result.output) == ("no books", None)
        assert done.result.error.place is not None
        assert "the output validator" in caplog.text
        assert "RuntimeError: no books" in caplog.text

    async def test_a_broken_one_ends_the_calls_that_held_the_answer(self) -> None:
        def broken(invoice: Invoice, context: OutputContext) -> Invoice:
            raise RuntimeError("no books")

        builder = clerk(call("final_result", number="7")).with_output(Invoice, mode="tool")
        done = await run(builder.with_output_validator(broken).build())
        assert done.ending == ("failed", "error")
        assert done.shown == ["This call was not run: a validator of it failed."]

    async def test_one_that_forgets_to_return_the_answer_is_broken_too(self) -> None:
        def forgetful(invoice: Invoice, context: OutputContext) -> Invoice:
            return None  # type: ignore[return-value]

        def reads(invoice: Invoice, context: OutputContext) -> Invoice:
            return invoice.model_copy()

        agent = clerk(GOOD).with_output(Invoice).with_output_validator(forgetful).with_output_validator(reads).build()
        done = await run(agent)
        assert done.ending == ("failed", "error")
        assert done.result.error is not None
        assert "it returned None, which is no Invoice: a validator returns the answer" in done.result.error.message
        assert done.result.outcome is not None
        assert "forgetful" in done.result.outcome.resolved_by

    async def test_one_that_returns_another_type_is_broken_and_what_it_returned_is_not_shown(self) -> None:
        def odd(invoice: Invoice, context: OutputContext) -> Invoice:
            return "secret"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

        done = await run(clerk(GOOD).with_output(Invoice).with_output_validator(odd).build())
        assert done.ending == ("failed", "error")
        assert done.result.error is not None
        assert done.result.error.message == "the answer that is left does not fit Invoice: Input should be an object"

    async def test_none_is_an_answer_where_the_type_has_it(self) -> None:
        def nothing(invoice: Invoice | None, context: OutputContext) -> Invoice | None:
            return None

        builder = clerk('{"value": {"number": "7"}}').with_output(TypeAdapter[Invoice | None](Invoice | None))
        done = await run(builder.with_output_validator(nothing).build())
        assert (done.ending, done.result.output) == (("completed", "completed"), None)

    async def test_what_a_validator_says_of_another_type_names_no_values(self) -> None:
        def strict(invoice: Invoice, context: OutputContext) -> Invoice:
            Point(**TypeAdapter(dict[str, int]).validate_python({"x": invoice.number}))
            return invoice

        builder = clerk('{"number": "secret"}', '{"number": "1"}').with_output(Invoice)
        done = await run(builder.with_output_validator(strict).build())
        assert "secret" not in str(done.one(AnswerRejected))
        assert done.result.output == Invoice(number="1")

    async def test_what_a_validator_says_is_told_without_credentials(self) -> None:
        refused = "postgresql://desk:a-password@shop refused"

        def looked_up(invoice: Invoice, context: OutputContext) -> Invoice:
            raise OutputRejected(refused)

        def known(number: int) -> int:
            raise ValueError(refused)

        for builder in (
            clerk(GOOD).with_output(Invoice, retries=0).with_output_validator(looked_up),
            clerk('{"value": 1}').with_output(TypeAdapter(Annotated[int, AfterValidator(known)]), retries=0),
        ):
            done = await run(builder.build())
            assert done.one(AnswerRejected).problems[0].message.endswith("postgresql://…@shop refused")

    async def test_words_that_cannot_be_had_are_no_failure(self) -> None:
        class Mute(OutputRejected):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        def silent(invoice: Invoice, context: OutputContext) -> Invoice:
            raise Mute

        done = await run(clerk(GOOD).with_output(Invoice, retries=0).with_output_validator(silent).build())
        assert done.one(AnswerRejected).problems[0].message == "Mute"

    async def test_one_that_cancels_itself_is_broken(self) -> None:
        def quits(invoice: Invoice, context: OutputContext) -> Invoice:
            raise asyncio.CancelledError

        done = await run(clerk(GOOD).with_output(Invoice).with_output_validator(quits).build())
        assert done.ending == ("failed", "error")


class TestProblems:
    async def test_there_are_at_most_20_of_300_characters(self) -> None:
        class Long(BaseModel):
            numbers: list[Annotated[int, Field(description="d")]]

        text = '{"numbers": [' + ", ".join(['"x"'] * 50) + "]}"
        done = await run(clerk(text, '{"numbers": []}').with_output(Long).build())
        assert len(done.one(AnswerRejected).problems) == 20

        def wordy(value: Long, context: OutputContext) -> Long:
            raise OutputRejected("no " * 500)

        rejected = await run(clerk('{"numbers": []}').with_output(Long, retries=0).with_output_validator(wordy).build())
        assert len(rejected.one(AnswerRejected).problems[0].message) == 300

    async def test_they_hold_no_values_of_the_answer(self) -> None:
        done = await run(clerk('{"number": ["secret"]}', GOOD).with_output(Invoice).build())
        assert "secret" not in str(done.one(AnswerRejected))

    @pytest.mark.parametrize(
        "text", ["I do not know", "", '{"number": NaN}', '{"number": "\\ud800"}', "[" * 2000, "1" * 5000]
    )
    async def test_what_is_no_json_is_said_so(self, text: str) -> None:
        done = await run(clerk(text, GOOD).with_output(Invoice).build())
        assert done.result.output == INVOICE
        assert done.one(AnswerRejected).problems[0].type == "json_invalid"

    async def test_a_value_that_cannot_be_stored_is_rejected(self) -> None:
        class Loose(BaseModel):
            ratio: float

        done = await run(clerk('{"ratio": "NaN"}', '{"ratio": 1}').with_output(Loose).build())
        assert done.one(AnswerRejected).problems[0].type == "not_storable"
        assert done.result.output == Loose(ratio=1.0)

    async def test_code_of_the_type_that_breaks_is_a_broken_hook(self) -> None:
        class Sick(BaseModel):
            number: str

            def model_post_init(self, context: Any) -> None:
                raise RuntimeError("out of order")

        done = await run(clerk('{"number": "1"}').with_output(Sick).build())
        assert done.ending == ("failed", "error")
