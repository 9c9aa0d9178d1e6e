"""The event of a conversation that was compacted. The log keeps the messages: only requests show fewer of them."""

from steptrail.domain.base import Count, Seconds
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.run import after_step
from steptrail.domain.usage import BilledUsage


class ConversationCompacted(Event, frozen=True, kw_only=True):
    """From now on requests show less of the conversation.

    It happened after step `through_step` of the execution. The messages before the place `through_message` are left
    out, except those at the places `kept`, and `summary` stands for them; None when it is the one of the compaction
    before, or when there is none yet. Of the messages before `cleared_through`, results of tools with more than
    `cleared_above` characters are left out: `cleared_calls` of those that are still shown. `tokens_before` is what the
    last request took, as its provider said; 0 for one that it refused as too long. `by` is the model or the function
    that was asked for a summary, and `usage` the bill for it; both are None when nobody was. `problem` is why there is
    no new summary, and `deadline` (microseconds of UTC) the limit of the run that cut it.
    """

    TYPE = "conversation.compacted.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"summary"})
    STATE = frozenset({"by", "usage"})
    through_step: Count
    through_message: Count
    kept: tuple[Count, ...] = ()
    summary: str | None = None
    cleared_through: Count
    cleared_above: Count
    cleared_calls: Count = 0
    tokens_before: Count = 0
    by: str | None = None
    usage: BilledUsage | None = None
    problem: ErrorInfo | None = None
    deadline: int | None = None
    duration_seconds: Seconds

    @property
    def counts_as(self) -> EventKind:
        """A summary was paid for. Without one, the compaction is concluded anew."""
        return self.KIND if self.by is not None else EventKind.INTENT

    def __str__(self) -> str:
        """Return how it was compacted: `182,310 tokens after step 41, summary by gpt-5-mini`."""
        before = f"{self.tokens_before:,} tokens" if self.tokens_before else "too many tokens"
        return f"{before} {after_step(self.through_step)}, {self.how}"

    @property
    def how(self) -> str:
        """The things that were done, in words."""
        done = [f"summary by {self.by}"] if self.summary is not None else []
        if self.cleared_calls:
            done.append(f"{self.cleared_calls} result{'' if self.cleared_calls == 1 else 's'} left out")
        if self.problem is not None:
            done.append(f"no summary by {self.by}: {self.problem.said}")
        return ", ".join(done) or "nothing left out"
