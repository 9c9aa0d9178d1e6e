"""One vote, as it is stored: the criterion, its decision, and the numbers on which it rests.

The text of a vote is not stored if it can be rendered from the rest. For built-in criteria it is rendered from the
context, and for a vote without a reason it is the default text. Both are rendered only when they are read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from steptrail.domain.base import LARGEST, Value, an_object, made
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.reasons import reason_for, shadow_of
from steptrail.domain.exception_words import words_of
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.module_names import module_of
from steptrail.domain.shared.run import StopReason
from steptrail.domain.storable import storable

_NUMBERS = frozenset({bool, float, int})
_SHORT = {
    "criterion_class": "c",
    "decision": "d",
    "context": "x",
    "stop_reason": "s",
    "given_reason": "r",
    "fails": "f",
    "is_limit": "l",
    "setting": "g",
}
"""The stored names of the fields. They are short, because the votes of ten criteria are the largest part of a step."""

_FROM_OUTSIDE = {"criterion_class": "criterion", "context": "context", "given_reason": "reason", "setting": "setting"}
"""The fields that hold texts and JSON of a service, with their places in an error."""


class ContinuationEvaluation(Value, frozen=True, kw_only=True, rename=_SHORT):
    """The vote of one criterion. Without a `given_reason`, its text is rendered from its context.

    A forbid states its own meaning for the run, so that no code has to know a criterion by its name. `fails` makes the
    run end as `failed`, as the stop reason `error` does. `is_limit` says that a limit is reached, which is no objection
    to an answer. `setting` is the setting of the agent by which the criterion voted, such as `max_steps`; None for a
    criterion that a user added.
    """

    criterion_class: str
    decision: ContinuationDecision = ContinuationDecision.ALLOW
    context: dict[str, JsonValue] = {}
    stop_reason: StopReason | None = None
    given_reason: str | None = None
    fails: bool = False
    is_limit: bool = False
    setting: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a short look tells that the vote can be stored as it is. It tells so of most votes of our own."""
        if type(self.decision) is not ContinuationDecision or self.given_reason is not None:
            return False
        for value in self.context.values():
            kind = type(value)
            if kind in _NUMBERS:  # neither an integer beyond all readers nor an infinity lies between, nor does NaN
                if not -LARGEST <= value <= LARGEST:  # type: ignore[operator]
                    return False
            elif kind is str:
                if not value.isascii():  # type: ignore[union-attr]
                    return False
            elif kind is list:
                if not all(type(item) is str and item.isascii() for item in value):  # type: ignore[union-attr]
                    return False
            elif value is not None:
                return False
        return True

    def as_stored(self) -> "ContinuationEvaluation":
        """Return the vote as it will be read back: a checked copy. Raises `NotStorable`, or `ValueError` for a type.

        A text that equals the rendered one is left out, so that equal votes have one stored form and compare as equal.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, place in _FROM_OUTSIDE.items():
            fields[name] = storable(fields[name], place)
        vote = made(ContinuationEvaluation, {_SHORT[name]: value for name, value in fields.items()})
        if vote.given_reason != reason_for(vote.criterion_class, vote.decision, vote.context):
            return vote
        return structs.replace(vote, given_reason=None)

    @property
    def reason(self) -> str:
        """The text of the vote: that of the criterion, or else rendered from the context."""
        if self.given_reason is not None:
            return self.given_reason
        return reason_for(self.criterion_class, self.decision, self.context)

    @property
    def shadow(self) -> ContinuationDecision | None:
        """The decision that a criterion in shadow would have taken; None for a vote that counts."""
        return shadow_of(self.decision, self.context)

    @property
    def raised(self) -> ErrorInfo | None:
        """The exception of the vote, or of one in it; see `from_exception`. None when nothing was raised."""
        return _raised(self.context)

    def in_shadow(self) -> "ContinuationEvaluation":
        """Return the vote as an `allow` that never stops a run, with its own decision in its context."""
        told: dict[str, JsonValue] = {**self.context, "shadow": self.decision.value}
        if self.stop_reason is not None:
            told["shadowStopReason"] = self.stop_reason.value
        return ContinuationEvaluation(
            criterion_class=self.criterion_class,
            decision=ContinuationDecision.ALLOW,
            context=told,
            given_reason=None if self.given_reason is None else f"{self.given_reason} (shadow)",
        )

    @classmethod
    def from_decision(
        cls,
        criterion_class: str,
        decision: ContinuationDecision,
        stop_reason: StopReason | None = None,
        *,
        reason: str | None = None,
        context: Mapping[str, JsonValue] | None = None,
    ) -> "ContinuationEvaluation":
        """Return a vote. Without a `reason` it has the default text, such as `StepsLimit forbade continuation`.

        Raises `NotStorable` for a reason or a context that cannot be stored.
        """
        vote = cls(criterion_class=criterion_class, decision=decision, stop_reason=stop_reason)
        if reason is None and context is None:
            return vote
        return structs.replace(vote, given_reason=reason, context=dict(context or {})).as_stored()

    @classmethod
    def from_exception(
        cls, criterion_class: str, error: Exception, frames: Sequence[str] = ()
    ) -> "ContinuationEvaluation":
        """Return the vote of a criterion that raised: it forbids, with the stop reason `error` and with `frames`."""
        kind = type(error)
        message = words_of(error)
        return cls(
            criterion_class=criterion_class,
            decision=ContinuationDecision.FORBID,
            given_reason=f"Continuation evaluation failed: {message or kind.__name__}",
            context={
                "exception": f"{module_of(kind)}.{kind.__qualname__}",
                "message": message,
                **({"frames": list(frames)} if frames else {}),
            },
            stop_reason=StopReason.ERROR,
            fails=True,
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the wire form: `criterion`, `decision`, `reason`, `context`, `stopReason` (nullable).

        `fails` and `is_limit` are not part of it: the status of the run shows their effect.
        """
        return {
            "criterion": self.criterion_class,
            "decision": self.decision.value,
            "reason": self.reason,
            "context": _told(self.context),
            "stopReason": self.stop_reason and self.stop_reason.value,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "ContinuationEvaluation":
        """Make a vote from its wire form. `reason`, `context` and `stopReason` may be missing, as in older data.

        Raises `ValueError` when the criterion or the decision is missing or unknown.
        """
        missing = [key for key in ("criterion", "decision") if an_object(data, "an evaluation").get(key) is None]
        if missing:
            raise ValueError(f"an evaluation needs {' and '.join(map(repr, missing))}; it has {sorted(data)}")
        names = {"criterion": "c", "decision": "d", "reason": "r", "context": "x", "stopReason": "s"}
        vote = {stored: data[name] for name, stored in names.items() if data.get(name) is not None}
        return made(cls, vote).as_stored()


def _raised(context: Mapping[str, JsonValue]) -> ErrorInfo | None:
    name, message, frames, votes = (context.get(key) for key in ("exception", "message", "frames", "evaluations"))
    if not isinstance(name, str):
        nested = [vote.get("context") for vote in votes if isinstance(vote, dict)] if isinstance(votes, list) else []
        raised = (_raised(each) for each in nested if isinstance(each, dict))
        return next((each for each in raised if each is not None), None)
    return ErrorInfo(
        type=ErrorType.UNKNOWN,
        error_class=name,
        message=message if isinstance(message, str) else "",
        frames=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
    )


def _told(context: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a context without the frames of exceptions, because front ends must not see the paths of files."""
    told = {key: value for key, value in context.items() if key != "frames" or "exception" not in context}
    nested = told.get("evaluations")
    if isinstance(nested, list):
        told["evaluations"] = [_of_nested(vote) for vote in nested]
    return told


def _of_nested(vote: JsonValue) -> JsonValue:
    context = vote.get("context") if isinstance(vote, dict) else None
    return {**vote, "context": _told(context)} if isinstance(vote, dict) and isinstance(context, dict) else vote
