"""Guards that look at the end of the model's answer: at its finish reason, and at whether the answer is whole."""

from collections.abc import Callable, Iterable
from typing import Any, Final, final

from steptrail.domain.continuation.built_in import Guard, built_in
from steptrail.domain.continuation.criteria.limit import Limit, More
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context, texts
from steptrail.domain.inference import CUT, NO_END, FinishReason
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row, a_text
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class FinishReasonCheck(Limit):
    """Forbids when the last step ended for one of `stop_reasons`, each a `FinishReason` or the provider's own word.

    It allows if there are no `stop_reasons`, or no finish reason yet. A match is no objection to the answer; that is
    the business of `AnswerComplete`. `getter` replaces the step's finish reasons. Raises `ConfigurationError` for what
    is no text.
    """

    __slots__ = ("_getter", "stop_reasons")

    counts = "how a reply ended"

    def __init__(
        self,
        stop_reasons: Iterable[FinishReason | str] = (),
        getter: Callable[[StateView], FinishReason | str | None] | None = None,
    ) -> None:
        # A single string is an iterable of letters, which is never what the caller means.
        given = (stop_reasons,) if isinstance(stop_reasons, str) else a_row(stop_reasons, "finish reasons")
        self.stop_reasons: Final = tuple(dict.fromkeys(str(a_text(reason, "a finish reason")) for reason in given))
        self._getter = getter

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `finishReason` (the word that matched, or the normalised one) and `stopReasons`."""
        seen = self._seen(state)
        matched = next((word for word in seen if word in self.stop_reasons), None)
        shown = matched or next(iter(seen), None)
        stops: list[JsonValue] = [*self.stop_reasons]
        context: dict[str, JsonValue] = {"finishReason": shown, "stopReasons": stops}
        return self._vote(context, None if matched is None else StopReason.FINISH_REASON, is_limit=True)

    def _seen(self, state: StateView) -> tuple[str, ...]:
        if self._getter is not None:
            word = self._getter(state)
            return () if word is None else (str(word),)
        step = state.current_step
        if step is None:
            return ()
        words = (step.finish_reason, step.raw_finish_reason)
        return tuple([str(word) for word in words if word is not None])

    @classmethod
    def more(cls, setting: str, context: Context, now: Any) -> More:
        """Return the finish reasons without the one that matched."""
        met = str(context["finishReason"])
        return More(f"finish reasons without {met!r}", {setting: tuple(reason for reason in now if reason != met)})

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        seen = context["finishReason"]
        if not texts(context, "stopReasons"):
            return "No stop reasons configured"
        if seen is None:
            return "No finish reason available"
        return f'Finish reason "{seen}" {"matched stop condition" if forbids else "does not match stop conditions"}'


_BROKEN = {
    "content_filter": "Answer withheld by the content filter",
    "error": "Answer broken off by an error of the provider",
    "paused": "Answer paused by the provider and not taken up again",
}


@final
@built_in
class AnswerComplete(Guard):
    """Forbids, and fails the run, when the answer is not whole: withheld by the filter, cut, paused, or broken off.

    An empty reply without a tool call is an answer if the finish reason says that the model has finished. It is none if
    the reason is unknown or says that the model wants tools. A reply that is cut or broken off in the middle of its
    tool calls is a failed step. After a failed step the criterion allows: there is no answer yet, and the error policy
    decides whether there will be one.
    """

    __slots__ = ()

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `finishReason`, `hasToolCalls`, and `stepFailed` or `isEmpty` if that is the reason."""
        step = state.current_step
        finish = None if step is None else step.finish_reason
        calls = step is not None and step.has_tool_calls
        context: dict[str, JsonValue] = {"finishReason": finish and str(finish), "hasToolCalls": calls}
        broken = finish is FinishReason.CONTENT_FILTER or (finish in CUT and not calls)
        if step is not None and step.has_errors:
            broken = False
            context["stepFailed"] = True
        elif step is not None and finish in NO_END and not (calls or step.output_verdict or step.text.strip()):
            broken = True
            context["isEmpty"] = True
        return self._vote(context, StopReason.FINISH_REASON if broken else None, fails=True)

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        seen = context["finishReason"]
        if forbids and context.get("isEmpty"):
            return "The reply has neither text nor tool calls, and does not say that the model has finished"
        if forbids:
            return _BROKEN.get(str(seen), "Answer cut at the output limit")
        if context.get("stepFailed"):
            return "The step failed: there is no answer to judge"
        return "No answer to judge yet" if seen is None else "Answer neither cut nor filtered"
