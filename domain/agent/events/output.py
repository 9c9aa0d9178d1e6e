"""Events of structured output: an answer was accepted, or rejected. Both stand before the end of their step.

`position` is that of the call that holds the answer; None for an answer in the text of the reply.
"""

from steptrail.domain.base import Count, Positive
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.output import OutputProblem


class AnswerAccepted(Event, frozen=True, kw_only=True):
    """The answer fits the type of the agent's output, and no validator refused it.

    If `is_changed`, `value` is the answer as JSON, with defaults, conversions and what validators made of it. Otherwise
    the answer is the JSON of the reply.
    """

    TYPE = "output.accepted.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"value"})
    step: Positive
    position: Count | None = None
    is_changed: bool = False
    value: JsonValue = None


class AnswerRejected(Event, frozen=True, kw_only=True):
    """The answer does not fit. The model is told the `problems`, at most 20; the reply holds the answer itself."""

    TYPE = "output.rejected.v1"
    KIND = EventKind.FACT
    step: Positive
    position: Count | None = None
    problems: tuple[OutputProblem, ...]


OutputEvent = AnswerAccepted | AnswerRejected
