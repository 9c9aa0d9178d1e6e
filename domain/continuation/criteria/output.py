"""The work driver of agents that answer in a type: it asks again for answers that do not fit."""

from typing import ClassVar, final

from msgspec import Struct, structs

from steptrail.domain.continuation.built_in import BuiltIn, built_in
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context, texts
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputSpec, OutputVerdict
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView

_SHOWN_PROBLEMS = 3
"""How many problems a vote holds. The event of the rejection holds all of them."""


@final
@built_in
class OutputAccepted(BuiltIn, Struct, frozen=True):
    """Votes `stop` for an answer that was accepted, and requests another step for one that was rejected, or is due.

    After more than `retries` rejections in a row it forbids with `retry_limit`, and so fails the run. It abstains
    after a failed step, and while there is no answer.
    """

    output: OutputSpec

    is_guard: ClassVar[bool] = False

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with `type`, `mode`, `rejections` and `retries`, and with `problems` after a rejection."""
        step = state.current_step
        if step is None or step.has_errors or step.output_verdict in {None, OutputVerdict.UNJUDGED}:
            return None
        context: dict[str, JsonValue] = {
            "type": self.output.type_name,
            "mode": self.output.mode.value,
            "rejections": state.output_rejections,
            "retries": self.output.retries,
        }
        if step.output_verdict is OutputVerdict.ACCEPTED:
            return self._cast(ContinuationDecision.STOP, context)
        if step.output_verdict is OutputVerdict.DUE:
            return self._cast(ContinuationDecision.REQUEST, {**context, "due": True})
        context["problems"] = [str(problem) for problem in step.output_problems[:_SHOWN_PROBLEMS]]
        if state.output_rejections <= self.output.retries:
            return self._cast(ContinuationDecision.REQUEST, context)
        forbid = self._cast(ContinuationDecision.FORBID, context)
        return structs.replace(forbid, stop_reason=StopReason.RETRY_LIMIT, fails=True)

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        rejections, retries, kind = context["rejections"], context["retries"], context["type"]
        if context.get("due"):
            return f"No more tools are asked for, requesting the answer as {kind}"
        if "problems" not in context:
            return f"The answer fits {kind}"
        problems = "; ".join(map(str, texts(context, "problems")))
        if forbids:
            answers = "1 answer" if rejections == 1 else f"{rejections} answers"
            return f"{answers} did not fit {kind} ({problems})"
        return f"The answer does not fit {kind} ({problems}), requesting another one ({rejections}/{retries})"
