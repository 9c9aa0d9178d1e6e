"""The criterion of agents that compact: it ends a run whose conversation does not fit, compacted or not."""

from typing import ClassVar, final

from msgspec import Struct

from steptrail.domain.continuation.built_in import Guard, built_in
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context, number
from steptrail.domain.json_value import JsonValue
from steptrail.domain.policy.compaction import MOST_IN_A_ROW, CompactionSpec
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class ConversationFits(Guard, Struct, frozen=True):
    """Forbids when the last request is still too large after compactions in a row, so that no storm of them begins.

    It has no vote on a resume: the step that a process left open comes to its end first.
    """

    compaction: CompactionSpec

    is_guard: ClassVar[bool] = False

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `tokens`, the `mark` from which on a conversation is compacted, and `compactions` in a row."""
        tokens, mark, done = state.context_tokens, self.compaction.mark, state.compactions_in_a_row
        is_in_vain = tokens >= mark and done >= MOST_IN_A_ROW
        context: dict[str, JsonValue] = {"tokens": tokens, "mark": mark, "compactions": done}
        return self._vote(context, StopReason.GUARD if is_in_vain else None, is_limit=True)

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        took = f"The conversation takes {number(context, 'tokens'):,.0f} tokens"
        done = f" after {number(context, 'compactions'):.0f} compactions" if forbids else ""
        return f"{took}{done}, and the mark is {number(context, 'mark'):,.0f}"
