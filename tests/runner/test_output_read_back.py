"""An answer that was accepted is read back as the same value, whatever its type writes of itself, and is never lost."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, SecretStr, computed_field

from steptrail import Agent, AgentBuilder
from steptrail.errors import ConfigurationError
from steptrail.events import AnswerAccepted
from steptrail.output import OutputContext
from steptrail.testing import ScriptedModel
from tests.runner.invoices import clerk
from tests.runner.kit import run, trail_of


class Total(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cents: int

    @computed_field
    def euros(self) -> float:
        """Computed, and refused when it is read."""
        return self.cents / 100


class Renamed(BaseModel):
    name: str = Field(validation_alias="given", serialization_alias="told")


class Reduced(BaseModel):
    cents: int
    note: str = Field(default="none", exclude=True)


class Packed(BaseModel):
    numbers: Json[list[int]]


@pytest.mark.parametrize(
    ("kind", "text", "output"),
    [
        (Total, '{"cents": 350}', Total(cents=350)),
        (Renamed, '{"given": "Ana"}', Renamed(given="Ana")),  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        (Reduced, '{"cents": 1, "note": "paid"}', Reduced(cents=1, note="paid")),
        (Packed, '{"numbers": "[1, 2]"}', Packed(numbers="[1, 2]")),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)
async def test_an_answer_is_read_back_as_it_was_accepted(kind: Any, text: str, output: object) -> None:
    agent: Agent[Any] = clerk(text).with_output(kind).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s")
        assert result.answered
        assert result.output == output
        assert (await trail.session("s").result(agent)).output == output


async def test_a_validators_answer_is_stored_without_what_its_type_computes_and_would_refuse() -> None:
    def doubled(total: Total, context: OutputContext) -> Total:
        return Total(cents=total.cents * 2)

    done = await run(clerk('{"cents": 350}').with_output(Total).with_output_validator(doubled).build())
    assert done.result.output == Total(cents=700)
    assert done.one(AnswerAccepted).value == done.result.output_json == {"cents": 700}


async def test_what_a_type_computes_and_takes_stands_in_the_json() -> None:
    class Open(BaseModel):
        cents: int

        @computed_field
        def euros(self) -> float:
            return self.cents / 100

    done = await run(clerk('{"cents": 350}').with_output(Open).build())
    assert (done.result.output, done.result.output_json) == (Open(cents=350), {"cents": 350, "euros": 3.5})


def test_an_answer_with_a_secret_is_refused_where_it_is_given() -> None:
    class Keyed(BaseModel):
        key: SecretStr

    with pytest.raises(
        ConfigurationError, match=r"the type Keyed: properties\.key is a secret, and an answer is stored$"
    ):
        clerk().with_output(Keyed)


async def test_a_context_of_a_type_that_refuses_what_it_computes_is_told() -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel(["hi"])).with_context(Total).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s", context=Total(cents=350))
    assert result.state.context == {"cents": 350}
