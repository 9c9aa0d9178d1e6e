"""The invoices of the tests of answers in a type, and the clerk who writes them."""

from pydantic import BaseModel, Field

from steptrail import AgentBuilder
from steptrail.output import OutputContext
from steptrail.testing import Reply, ScriptedModel


class Line(BaseModel):
    name: str
    cents: int


class Invoice(BaseModel):
    number: str
    lines: list[Line] = Field(default_factory=list[Line])


GOOD = '{"number": "7", "lines": [{"name": "tea", "cents": 3}]}'
BAD = '{"number": "7", "lines": [{"name": "tea", "cents": "many"}]}'
TOLD = "lines.0.cents: Input should be a valid integer, unable to parse string as an integer"
INVOICE = Invoice(number="7", lines=[Line(name="tea", cents=3)])


def clerk(*script: Reply) -> AgentBuilder:
    return AgentBuilder("clerk").with_model(ScriptedModel(script))


def passing(invoice: Invoice, context: OutputContext) -> Invoice:
    return invoice
