"""The rule by which a conversation is compacted, as it is recorded with an agent."""

from math import ceil
from typing import Annotated

from msgspec import Meta

from steptrail.domain.base import BoundedCount, BoundedPositive, Settings
from steptrail.domain.inference import ModelInfo

MOST_IN_A_ROW = 2
"""How often an execution compacts before a reply has shown that it helped."""


class CompactionSpec(Settings, frozen=True, kw_only=True):
    """The rule: a conversation is compacted when it takes the share `above` of the model's `window`, in tokens.

    Results of tools with more than `clear_results_above` characters are left out of what the model is shown, then what
    came before the last `keep_steps` steps is summarised. `summarizer` is the model that writes the summary, or the
    name of a function; None when the model of the run does.
    """

    above: Annotated[float, Meta(gt=0, le=1)]
    window: BoundedPositive
    keep_steps: BoundedPositive
    clear_results_above: BoundedCount
    summarizer: ModelInfo | str | None = None

    @property
    def mark(self) -> int:
        """The number of tokens of a request from which on the conversation is compacted."""
        return max(1, ceil(self.above * self.window))
