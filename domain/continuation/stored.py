"""The form in which events store votes. It is short, because the votes of ten criteria are the largest part of a step.

A stored vote has short keys, and no key for a field with its default value. The default of the decision is `allow`, in
this form only. The full names are read as well, because the JSON that other programs get has them.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field, GetCoreSchemaHandler, SerializationInfo, SerializerFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation, VoteContext
from steptrail.domain.shared.run import StopReason

__all__ = ["StoredVotes"]

_DEFAULT = ContinuationDecision.ALLOW


class _Stored(ContinuationEvaluation):
    criterion_class: str = Field(validation_alias=AliasChoices("c", "criterion_class"))
    decision: ContinuationDecision = Field(default=_DEFAULT, validation_alias=AliasChoices("d", "decision"))
    context: VoteContext = Field(default={}, validation_alias=AliasChoices("x", "context"))
    stop_reason: StopReason | None = Field(default=None, validation_alias=AliasChoices("s", "stop_reason"))
    given_reason: str | None = Field(default=None, validation_alias=AliasChoices("r", "reason"))
    fails: bool = Field(default=False, validation_alias=AliasChoices("f", "fails"))
    is_limit: bool = Field(default=False, validation_alias=AliasChoices("l", "is_limit"))
    setting: str | None = Field(default=None, validation_alias=AliasChoices("g", "setting"))


class _Short:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        plain, stored = handler(source), handler.generate_schema(tuple[_Stored, ...])
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(_votes, stored),
            python_schema=plain,
            serialization=core_schema.wrap_serializer_function_ser_schema(_written, info_arg=True, schema=plain),
        )


StoredVotes = Annotated[tuple[ContinuationEvaluation, ...], _Short]
"""Votes in the short form if defaults are left out when the model is dumped, and in the full form otherwise."""


def _votes(stored: tuple[_Stored, ...]) -> tuple[ContinuationEvaluation, ...]:
    # These are valid votes of a subclass. To construct each of them again would double the time of reading.
    rename = object.__setattr__
    for vote in stored:
        rename(vote, "__class__", ContinuationEvaluation)
    return stored


def _written(
    votes: Sequence[ContinuationEvaluation], dump: SerializerFunctionWrapHandler, info: SerializationInfo
) -> Any:
    return [_short(vars(vote)) for vote in votes] if info.exclude_defaults else dump(votes)


def _short(vote: dict[str, Any]) -> dict[str, Any]:
    short = {"c": vote["criterion_class"]}
    if vote["decision"] is not _DEFAULT:
        short["d"] = vote["decision"].value
    if vote["context"]:
        short["x"] = vote["context"]
    if vote["stop_reason"] is not None:
        short["s"] = vote["stop_reason"].value
    if vote["given_reason"] is not None:
        short["r"] = vote["given_reason"]
    if vote["fails"]:
        short["f"] = True
    if vote["is_limit"]:
        short["l"] = True
    if vote["setting"] is not None:
        short["g"] = vote["setting"]
    return short
