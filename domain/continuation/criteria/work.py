"""Work drivers: they request another step while there is work, and vote `stop` when there is none.

After a failed step they abstain, because a `stop` would end a run whose retry was granted. `decide` cannot abstain, so
it returns `allow`, the weakest vote.
"""

from collections.abc import Callable
from typing import ClassVar, final

from msgspec import Struct

from steptrail.domain.continuation.built_in import BuiltIn, built_in
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_plain_function
from steptrail.domain.output import OutputVerdict
from steptrail.domain.views import StateView, StepView


def _has_failed(step: StepView | None) -> bool:
    return step is not None and step.has_errors


@final
@built_in
class ToolCallPresenceCheck(BuiltIn, Struct, frozen=True):
    """Requests the first step, and another one after each step that called tools; otherwise it votes `stop`.

    `getter` replaces the test whether there is more to do, also before the first step.
    """

    getter: Callable[[StateView], bool] | None = None

    is_guard: ClassVar[bool] = False

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with `hasToolCalls`, and `bootstrap` before the first step. Abstain after a failed step."""
        step = state.current_step
        if _has_failed(step):
            return None
        context: dict[str, JsonValue]
        if self.getter is not None:
            more = self.getter(state)
            context = {"hasToolCalls": more}
        elif step is None:
            more = True
            context = {"hasToolCalls": False, "bootstrap": True}
        else:
            # An answer that was accepted ends the run, also when it came beside calls of tools.
            more = step.has_tool_calls and step.output_verdict is not OutputVerdict.ACCEPTED
            context = {"hasToolCalls": more}
        return self._cast(ContinuationDecision.REQUEST if more else ContinuationDecision.STOP, context)

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        if context.get("bootstrap"):
            return "No step has run yet, requesting the first one"
        return (
            "Tool calls present, requesting continuation" if context["hasToolCalls"] else "No tool calls, allowing stop"
        )


def _text_of_last_step(state: StateView) -> str | None:
    return None if state.current_step is None else state.current_step.text


@final
@built_in
class ResponseContentCheck(BuiltIn, Struct, frozen=True):
    """Requests another step while `predicate` is true for the last response; otherwise it votes `stop`.

    The response is the text of the last step, or the result of `getter`. Without a response it allows, and the
    predicate is not called. An empty text is a response. Raises `ConfigurationError` for a predicate that is no plain
    function.
    """

    predicate: Callable[[str], bool]
    getter: Callable[[StateView], str | None] = _text_of_last_step

    is_guard: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # Whatever an async one says, it is true.
        a_plain_function(self.predicate, "what a ResponseContentCheck asks", "the response")

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with `hasResponse` and `matched` (nullable). Abstain after a failed step."""
        if _has_failed(state.current_step):
            return None
        response = self.getter(state)
        matched = None if response is None else bool(self.predicate(response))
        if matched is None:
            decision = ContinuationDecision.ALLOW
        else:
            decision = ContinuationDecision.REQUEST if matched else ContinuationDecision.STOP
        return self._cast(decision, {"hasResponse": response is not None, "matched": matched})

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        if not context["hasResponse"]:
            return "No response available"
        return (
            "Response matched, requesting continuation"
            if context["matched"]
            else "Response did not match, allowing stop"
        )
