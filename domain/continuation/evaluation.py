"""One vote, as it is stored: the criterion, its decision, and the numbers on which it rests.

The text of a vote is not stored if it can be rendered from the rest. For built-in criteria it is rendered from the
context, and for a vote without a reason it is the default text. Both are rendered only when they are read.
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
    """Refuses text that UTF-8 cannot encode. Values from JSON are not checked, because they were encoded before."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        plain = handler(source)
        checked = core_schema.no_info_after_validator_function(_encodable, plain)
        return core_schema.json_or_python_schema(json_schema=plain, python_schema=checked)


def _encodable(context: dict[str, JsonValue]) -> dict[str, JsonValue]:
    # Data that cannot be stored would fail when the commit is written, and that error would not name the criterion.
    try:
        written = orjson.dumps(context)  # refuses lone surrogates, and little else; what else it refuses may be stored
    except orjson.JSONEncodeError:
        _check(context, "context")
    else:
        # Counting brackets is quick, and text with few of them cannot be nested too deep.
        if written.count(b"[") + written.count(b"{") > _FEW:
            _check(context, "context")
    return context


VoteContext = Annotated[dict[str, JsonValue], _Encodable()]
"""The numbers on which a vote rests: JSON without NaN, and without text that UTF-8 cannot encode."""


class ContinuationEvaluation(FrozenModel):
    """The vote of one criterion. Without a `reason`, its text is rendered from its context.

    A forbid states its own meaning for the run, so that no code has to know a criterion by its name. `fails` makes the
    run end as `failed`, as the stop reason `error` does. `is_limit` says that a limit is reached, which is no objection
    to an answer. `setting` is the setting of the agent by which the criterion voted, such as `max_steps`; None for a
    criterion that a user added. `domain/continuation/stored.py` says how events store votes.
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
        # A text that equals the rendered one is dropped, so that equal votes have one stored form and compare as equal.
        try:
            implied = reason_for(info.data["criterion_class"], info.data["decision"], info.data["context"])
        except KeyError:  # an earlier field is invalid, and pydantic will report it
            return reason
        return None if reason == implied else reason

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
        """Return a vote with the default text of its decision, such as `StepsLimit forbade continuation`."""
        return cls(criterion_class=criterion_class, decision=decision, stop_reason=stop_reason)

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
    """Return a context without the frames of exceptions, because front ends must not see the paths of files."""
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
