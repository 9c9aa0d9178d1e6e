"""Structured output: the form in which an agent answers, as it is recorded, and how its JSON is read from a reply."""

import json
import re
from enum import StrEnum
from typing import Annotated, NoReturn

from msgspec import Meta

from steptrail.domain.base import Count, Settings, Value
from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.storable import storable

WRAPPED_IN = "value"
"""The key of an answer on the wire whose type is no object."""

_FENCE = re.compile(r"```[a-zA-Z]*\s*")


class OutputMode(StrEnum):
    """The way in which a model is asked for an answer of a type."""

    NATIVE = "native"
    """The provider makes the reply fit the schema."""
    TOOL = "tool"
    """One more tool is offered, and the arguments of its call are the answer."""
    PROMPTED = "prompted"
    """The schema stands in the system prompt."""
    LAST = "last"
    """The model uses its tools first. When it asks for none, it is called once more, without tools, as in `native`."""


class OutputSpec(Settings, frozen=True, kw_only=True):
    """The form in which an agent answers, as it is stored with an execution.

    `json_schema` is the schema that is sent. If the type is no object, the answer is wrapped in one with the only field
    `value`. `is_strict` says that the provider is asked to keep to the schema exactly, and `note` says why not.
    `retries` is the number of rejected answers in a row after which the model is asked again. `validators` are their
    names, in the order in which they run.
    """

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]
    type_name: str
    json_schema: dict[str, JsonValue]
    mode: OutputMode
    description: str | None = None
    is_wrapped: bool = False
    is_strict: bool = True
    note: str | None = None
    retries: Count = 2
    validators: tuple[str, ...] = ()

    def unwrapped(self, answer: JsonValue) -> JsonValue:
        """Return the value of the type from an answer on the wire. Raises `KeyError` if it is not there."""
        if not self.is_wrapped:
            return answer
        if not isinstance(answer, dict):
            raise KeyError(WRAPPED_IN)
        return answer[WRAPPED_IN]


class OutputProblem(Value, frozen=True, kw_only=True):
    """One reason why an answer was rejected. `at` is the place, such as `lines.0.cents`; None for the whole answer."""

    CONTENT = frozenset({"at", "message"})
    STATE = frozenset({"type"})
    at: str | None = None
    type: str
    message: str

    def __str__(self) -> str:
        """Return the place and what is wrong there."""
        return f"{self.at}: {self.message}" if self.at is not None else self.message


class OutputVerdict(StrEnum):
    """The verdict on the answer of a step."""

    ACCEPTED = "accepted"
    """The answer fits the type."""
    REJECTED = "rejected"
    """The answer does not fit the type, or a validator refused it."""
    UNJUDGED = "unjudged"
    """A call holds an answer that was not judged, because of other calls, a hook, a stop, or a broken validator."""
    DUE = "due"
    """The model asked for no more tools: the answer is asked for next, in its form."""


class StepOutput(Value, frozen=True, kw_only=True):
    """The verdict on the answer of a step, with the value of an accepted one, or the problems of a rejected one."""

    verdict: OutputVerdict
    value: JsonValue = None
    problems: tuple[OutputProblem, ...] = ()


def json_in(answer: str | ToolCallPart) -> JsonValue:
    """Return the JSON of an answer: of a text, without the fences of a code block, or of the arguments of a call.

    Raises `ValueError` when there is none, or none that can be stored.
    """
    if isinstance(answer, str):
        first, _, rest = answer.strip().partition("\n")
        is_fenced = rest.endswith("```") and _FENCE.fullmatch(first) is not None
        return _parsed(rest[:-3].strip() if is_fenced else answer)
    return answer.arguments if answer.arguments is not None else _parsed(answer.raw or "")


def _parsed(text: str) -> JsonValue:
    try:
        return storable(json.loads(text, parse_constant=_no_number), "the answer")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except NotStorable as error:
        raise ValueError(str(error)) from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def problem_text(problems: tuple[OutputProblem, ...]) -> str:
    """Return the text with which a model is told why its answer was rejected."""
    told = "\n".join(str(problem) for problem in problems)
    return f"<output_problem>{told}</output_problem> Give the whole answer again."


ASKED_IN_THE_END = "<output_request>Give the answer now, in the form that was asked for.</output_request>"
"""The text with which a model that asks for no more tools is asked for its answer in the right form."""
