"""Guards on how the model's answer ended: for a reason that ends the run, or before it was whole."""

from collections.abc import Callable, Iterable
from typing import ClassVar, final

from pydantic import JsonValue

from steptrail.domain.continuation.criteria.guarding import limit_vote
from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.inference import FinishReason
from steptrail.domain.views import StateView

__all__ = ["AnswerComplete", "FinishReasonCheck"]

_CUT = frozenset({FinishReason.LENGTH, FinishReason.PAUSED, FinishReason.ERROR})
_NO_END = frozenset({FinishReason.TOOL_CALLS, FinishReason.OTHER})
"""Reasons that do not say that the model has finished; text beside them is taken for the answer all the same."""


@final
class FinishReasonCheck:
    """Forbids when the last step ended for one of `stop_reasons`, each a `FinishReason` or the provider's own word.

    Without any, or before there is a finish reason, it allows. Whether the answer is whole says `AnswerComplete`: a
    match is no objection to it. `getter` replaces the step's finish reasons.
    """

    __slots__ = ("_getter", "_stop_reasons")

    is_guard: ClassVar[bool] = True

    def __init__(
        self,
        stop_reasons: Iterable[FinishReason | str] = (),
        getter: Callable[[StateView], FinishReason | str | None] | None = None,
    ) -> None:
        # A lone word is an iterable of letters, and nobody means those.
        given = (stop_reasons,) if isinstance(stop_reasons, str) else stop_reasons
        self._stop_reasons = tuple(dict.fromkeys(str(reason) for reason in given))
        self._getter = getter

    @property
    def stop_reasons(self) -> tuple[str, ...]:
        """The finish reasons that end the run."""
        return self._stop_reasons

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `finishReason` (the word that matched, or the normalised one) and `stopReasons`."""
        seen = self._seen(state)
        matched = next((word for word in seen if word in self._stop_reasons), None)
        shown = matched or next(iter(seen), None)
        stops: list[JsonValue] = [*self._stop_reasons]
        context: dict[str, JsonValue] = {"finishReason": shown, "stopReasons": stops}
        return limit_vote("FinishReasonCheck", context, None if matched is None else StopReason.FINISH_REASON)

    def _seen(self, state: StateView) -> tuple[str, ...]:
        if self._getter is not None:
            word = self._getter(state)
            return () if word is None else (str(word),)
        step = state.current_step
        if step is None:
            return ()
        words = (step.finish_reason, step.raw_finish_reason)
        return tuple(str(word) for word in words if word is not None)


@final
class AnswerComplete:
    """Forbids, and fails the run, when the answer is not whole: withheld by the filter, cut, paused, or broken off.

    A reply without a word and without a call is an answer when the model says that it has finished, and none when it
    says something that nobody knows, or that it wants tools. A reply cut in the middle of its tool calls is a failed
    step. It allows after a failed step: there is no answer to judge, and the error policy decides whether there will
    be one.
    """

    __slots__ = ()

    is_guard: ClassVar[bool] = True

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `finishReason`, `hasToolCalls`, and `stepFailed` or `isEmpty` where that is why."""
        step = state.current_step
        finish = None if step is None else step.finish_reason
        calls = step is not None and step.has_tool_calls
        context: dict[str, JsonValue] = {"finishReason": finish and finish.value, "hasToolCalls": calls}
        broken = finish is FinishReason.CONTENT_FILTER or (finish in _CUT and not calls)
        if step is not None and step.has_errors:
            broken = False
            context["stepFailed"] = True
        elif step is not None and finish in _NO_END and not calls and not step.text.strip():
            broken = True
            context["isEmpty"] = True
        return ContinuationEvaluation(
            criterion_class="AnswerComplete",
            decision=ContinuationDecision.FORBID if broken else ContinuationDecision.ALLOW,
            context=context,
            stop_reason=StopReason.FINISH_REASON if broken else None,
            fails=broken,
        )
