"""One vote, as it is stored: who voted, how, on which numbers.

The text is not part of it when it can be made from the rest: built-in criteria speak from their context, a vote
without a reason speaks the default, and both are put into words only when somebody reads them.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field, GetCoreSchemaHandler, JsonValue, ValidationInfo, field_validator
from pydantic_core import CoreSchema, core_schema

from steptrail.domain.base import FrozenModel
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.reasons import reason_for, shadow_of
from steptrail.domain.errors import NotStorable
from steptrail.domain.exception_words import words_of
from steptrail.domain.shared.run import StopReason
from steptrail.domain.storable import storable

__all__ = ["ContinuationEvaluation", "VoteContext"]

_FEW = 100


class _Encodable:
    """Refuses text that UTF-8 cannot hold, where it can be: what comes as JSON has been through UTF-8."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        plain = handler(source)
        checked = core_schema.no_info_after_validator_function(_encodable, plain)
        return core_schema.json_or_python_schema(json_schema=plain, python_schema=checked)


def _encodable(context: dict[str, JsonValue]) -> dict[str, JsonValue]:
    # What cannot be stored fails when the commit is written: too late to blame the criterion.
    try:
        written = orjson.dumps(context)  # refuses lone surrogates, and little else; what else it refuses may be stored
    except orjson.JSONEncodeError:
        _check(context, "context")
    else:
        # Brackets are quickly counted, and few of them cannot be nested too deep.
        if written.count(b"[") + written.count(b"{") > _FEW:
            _check(context, "context")
    return context


VoteContext = Annotated[dict[str, JsonValue], _Encodable()]
"""The numbers that a vote rests on: JSON, without NaN and without text that UTF-8 cannot hold."""


class ContinuationEvaluation(FrozenModel):
    """One criterion's vote. Constructed with `reason=...`, or without one for the text that its context implies.

    A forbid says itself what it means for the run, so that nobody has to know a criterion by its name. `fails` makes
    the run a failed one, as the stop reason `error` does. `is_limit` says that something is used up, which is no
    objection to an answer. `setting` is the setting of the agent that it was taken by, such as `max_steps`; None for a
    criterion that somebody added. How events store a vote says `domain/continuation/stored.py`.
    """

    criterion_class: str
    decision: ContinuationDecision
    context: VoteContext = Field(default={})
    stop_reason: StopReason | None = None
    given_reason: str | None = Field(default=None, alias="reason")
    fails: bool = False
    is_limit: bool = False
    setting: str | None = None

    @field_validator("given_reason")
    @classmethod
    def _only_what_cannot_be_rendered(cls, reason: str | None, info: ValidationInfo) -> str | None:
        _check(reason, "reason")
        # One vote has one stored form, whoever wrote its text out: equality and round trips rest on it.
        try:
            implied = reason_for(info.data["criterion_class"], info.data["decision"], info.data["context"])
        except KeyError:  # an earlier field is invalid, and pydantic is about to say so
            return reason
        return None if reason == implied else reason

    @property
    def reason(self) -> str:
        """The vote in words, rendered on reading unless the criterion gave its own."""
        if self.given_reason is not None:
            return self.given_reason
        return reason_for(self.criterion_class, self.decision, self.context)

    @property
    def shadow(self) -> ContinuationDecision | None:
        """The vote that a criterion in shadow would have cast; None for a vote that counts."""
        return shadow_of(self.decision, self.context)

    def in_shadow(self) -> "ContinuationEvaluation":
        """Return the vote as an `allow` that never stops a run, with its own decision in its context."""
        told: dict[str, JsonValue] = {**self.context, "shadow": self.decision.value}
        if self.stop_reason is not None:
            told["shadowStopReason"] = self.stop_reason.value
        return ContinuationEvaluation(
            criterion_class=self.criterion_class,
            decision=ContinuationDecision.ALLOW,
            context=told,
            reason=None if self.given_reason is None else f"{self.given_reason} (shadow)",
        )

    @classmethod
    def from_decision(
        cls, criterion_class: str, decision: ContinuationDecision, stop_reason: StopReason | None = None
    ) -> "ContinuationEvaluation":
        """Return a vote that says no more than its decision, such as `StepsLimit forbade continuation`."""
        return cls(criterion_class=criterion_class, decision=decision, stop_reason=stop_reason)

    @classmethod
    def from_exception(
        cls, criterion_class: str, error: Exception, frames: Sequence[str] = ()
    ) -> "ContinuationEvaluation":
        """Return the vote of a criterion that raised, at these `frames`: it forbids, and the stop reason is `error`."""
        kind = type(error)
        message = words_of(error)
        return cls(
            criterion_class=criterion_class,
            decision=ContinuationDecision.FORBID,
            reason=f"Continuation evaluation failed: {message or kind.__name__}",
            context={
                "exception": f"{kind.__module__}.{kind.__qualname__}",
                "message": message,
                **({"frames": list(frames)} if frames else {}),
            },
            stop_reason=StopReason.ERROR,
            fails=True,
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the wire form: `criterion`, `decision`, `reason`, `context`, `stopReason` (nullable).

        What a forbid means for the run is told by the run's status, and is no part of it.
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
        """Read the wire form back. `reason`, `context` and `stopReason` may be missing, as in older data.

        Raises `ValueError` when the criterion or the decision is missing or unknown.
        """
        missing = [key for key in ("criterion", "decision") if data.get(key) is None]
        if missing:
            raise ValueError(f"an evaluation needs {' and '.join(map(repr, missing))}; it has {sorted(data)}")
        return cls.model_validate(
            {
                "criterion_class": data["criterion"],
                "decision": data["decision"],
                "reason": data.get("reason"),
                "context": data.get("context") or {},
                "stop_reason": data.get("stopReason"),
            }
        )


def _told(context: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a context without the frames of exceptions: the wire form goes to front ends, and files are not theirs."""
    told = {key: value for key, value in context.items() if key != "frames" or "exception" not in context}
    nested = told.get("evaluations")
    if isinstance(nested, list):
        told["evaluations"] = [_of_nested(vote) for vote in nested]
    return told


def _of_nested(vote: JsonValue) -> JsonValue:
    context = vote.get("context") if isinstance(vote, dict) else None
    return {**vote, "context": _told(context)} if isinstance(vote, dict) and isinstance(context, dict) else vote


def _check(value: JsonValue, where: str) -> None:
    try:
        storable(value, where)
    except NotStorable as error:
        raise ValueError(str(error)) from None
