"""Every limit: its criterion, which is also its row of the table, and its setting.

All of them count per execution and are asked before a step starts; with a limit of 0 no step runs. A step is not cut
short, so a run may overshoot a limit on tokens or money by one step.

A new limit is a class here, a field of `Limits` that is annotated with it, its name in `LimitName`, and a method of the
builder. The vote and its words, the advice, the option of the command line and the shadow come from those.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, final, get_args, overload

import msgspec

from steptrail.domain.base import BoundedCount, BoundedPositive, BoundedSeconds, PositiveSeconds, Settings
from steptrail.domain.continuation.built_in import built_in
from steptrail.domain.continuation.criteria.answer import FinishReasonCheck
from steptrail.domain.continuation.criteria.cost_limit import CostLimit
from steptrail.domain.continuation.criteria.limit import CountLimit, Limit, TimeLimit
from steptrail.domain.continuation.criteria.shadow import Shadow
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.continuation.reasons import Context, number
from steptrail.domain.inference import FinishReason
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import USD_PLACES, PriceTable, Unpriced, Usd, wrong_money
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class StepsLimit(CountLimit, frozen=True):
    """Forbids when `most` steps are recorded."""

    counts = "steps, failed ones included"
    keys = ("currentSteps", "maxSteps")
    labels = ("Step limit reached", "Steps under limit")
    stop_reason = StopReason.STEPS_LIMIT
    own_count = attrgetter("step_count")


@final
@built_in
class TokenUsageLimit(CountLimit, frozen=True):
    """Forbids when `most` tokens of all kinds are used."""

    counts = "tokens of all kinds"
    keys = ("totalTokens", "maxTotalTokens")
    labels = ("Token limit reached", "Tokens under limit")
    stop_reason = StopReason.TOKEN_LIMIT
    own_count = attrgetter("usage.total")


@final
@built_in
class InputTokenLimit(CountLimit, frozen=True):
    """Forbids when `most` tokens were sent, cached ones included."""

    counts = "tokens sent, cached ones included"
    keys = ("inputTokens", "maxInputTokens")
    labels = ("Input token limit reached", "Input tokens under limit")
    stop_reason = StopReason.TOKEN_LIMIT
    own_count = attrgetter("usage.all_input")


@final
@built_in
class OutputTokenLimit(CountLimit, frozen=True):
    """Forbids when `most` tokens were written, reasoning included."""

    counts = "tokens written, reasoning included"
    keys = ("outputTokens", "maxOutputTokens")
    labels = ("Output token limit reached", "Output tokens under limit")
    stop_reason = StopReason.TOKEN_LIMIT
    own_count = attrgetter("usage.all_output")


@final
@built_in
class ToolCallLimit(CountLimit, frozen=True):
    """Forbids when the model has asked for more than `most` tool calls; the ones too many were not run.

    So a run that needs exactly as many may still answer.
    """

    counts = "tool calls; those too many are not run"
    keys = ("toolCalls", "maxToolCalls")
    labels = ("Tool call limit reached", "Tool calls under limit")
    stop_reason = StopReason.GUARD
    own_count = attrgetter("tool_call_count")

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `toolCalls`, `maxToolCalls` and `refusedToolCalls`."""
        calls, refused = (self.counter or self.own_count)(state), state.tool_calls_refused
        # Where nobody refuses them, because the limit is in shadow or was lowered, the ones too many have run.
        is_reached = refused > 0 or calls > self.most
        told: dict[str, JsonValue] = {"toolCalls": calls, "maxToolCalls": self.most, "refusedToolCalls": refused}
        return self._vote(told, self.stop_reason if is_reached else None, is_limit=True)


@final
@built_in
class ExecutionTimeLimit(TimeLimit, frozen=True):
    """Forbids when `most` seconds of wall time have passed since the execution started or was last resumed."""

    counts = "seconds of wall time since the start or the last resume"
    keys = ("elapsedSeconds", "maxSeconds")
    own_count = attrgetter("elapsed_seconds")

    @classmethod
    def _words(cls, forbids: bool, context: Context) -> str:
        elapsed, most = (number(context, key) for key in cls.keys)
        return f"Execution time {'limit reached' if forbids else 'under limit'}: {elapsed:.2f}s/{most:.2f}s"


@final
@built_in
class CumulativeExecutionTimeLimit(TimeLimit, frozen=True):
    """Forbids when the steps of an execution have taken `most` seconds, pauses between them not counted."""

    counts = "seconds of active time, waits left out"
    keys = ("cumulativeSeconds", "maxSeconds")
    own_count = attrgetter("cumulative_execution_seconds")

    @classmethod
    def _words(cls, forbids: bool, context: Context) -> str:
        spent, most = (number(context, key) for key in cls.keys)
        whole = int(most) if most == int(most) else most
        return f"Cumulative execution time {spent:.1f}s {'exceeded' if forbids else 'under'} limit {whole}s"


@final
@built_in
class CrashLoopLimit(CountLimit, frozen=True):
    """Forbids when `most` segments in a row ended without a new commit: the run keeps killing its process."""

    most: int = 3

    counts: ClassVar[str] = "segments in a row that ended without progress"
    keys: ClassVar[tuple[str, str]] = ("unproductiveSegments", "maxSegments")
    labels: ClassVar[tuple[str, str]] = ("Crash loop", "No crash loop")
    stop_reason: ClassVar[StopReason] = StopReason.GUARD
    least: ClassVar[int] = 1
    own_count = attrgetter("unproductive_segments")

    @classmethod
    def _words(cls, forbids: bool, context: Context) -> str:
        return f"{super()._words(forbids, context)} segments in a row without progress"


LimitName = Literal[
    "max_steps",
    "max_tokens",
    "max_input_tokens",
    "max_output_tokens",
    "max_cost",
    "max_tool_calls",
    "timeout",
    "cumulative_timeout",
    "finish_reasons",
    "max_unproductive_segments",
]
"""The settings of `Limits` that end a run, in the order of `LIMITS`."""


class Limits(Settings, frozen=True, kw_only=True):
    """The guards of one execution. `None` means no limit.

    Times are in seconds, a century at most: `timeout` counts wall time since the execution started or was last resumed,
    `cumulative_timeout` the active time of all its steps. Reaching a limit forbids (`>=`). `max_result_characters` cuts
    what the model sees of one tool result; `max_concurrent_tools` is how many calls of a step run at once, where their
    tools allow it; `max_tool_calls` is how many an execution may make; `stop_grace` is how long an effect in flight may
    take to land after a stop; `longest_wait` is how long a run sits out the wait for a retry: a longer one ends the
    call as `waiting`.

    `max_cost` is in US dollars and needs `prices`; `unpriced` is what it does about a model that has none. The limits
    named in `shadow` vote and stop nothing.
    """

    # Those with a class are limits, and are asked in this order.
    max_steps: Annotated[BoundedCount | None, StepsLimit] = 20
    max_tokens: Annotated[BoundedCount | None, TokenUsageLimit] = 32_768
    max_input_tokens: Annotated[BoundedCount | None, InputTokenLimit] = None
    max_output_tokens: Annotated[BoundedCount | None, OutputTokenLimit] = None
    prices: PriceTable | None = None
    max_cost: Annotated[Usd | None, CostLimit] = None
    unpriced: Unpriced = "fail_closed"
    max_tool_calls: Annotated[BoundedCount | None, ToolCallLimit] = None
    timeout: Annotated[PositiveSeconds | None, ExecutionTimeLimit] = 300.0
    cumulative_timeout: Annotated[PositiveSeconds | None, CumulativeExecutionTimeLimit] = None
    finish_reasons: Annotated[tuple[FinishReason, ...], FinishReasonCheck] = ()
    max_unproductive_segments: Annotated[BoundedPositive, CrashLoopLimit] = 3
    max_result_characters: BoundedPositive | None = 16_000
    max_concurrent_tools: BoundedPositive = 8
    stop_grace: BoundedSeconds = 2.0
    longest_wait: BoundedSeconds = 60.0
    shadow: tuple[LimitName, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_cost is not None:
            if why := wrong_money(self.max_cost, USD_PLACES):
                self.refuse("max_cost", why)
            if self.prices is None:
                self.refuse("max_cost", "a limit on cost needs `prices`")
        # The order says nothing, and the fingerprint of an agent must not depend on it.
        msgspec.structs.force_setattr(self, "shadow", tuple(sorted(set(self.shadow))))

    @overload
    def binding(self, name: Literal["max_tool_calls", "max_unproductive_segments"]) -> int | None: ...
    @overload
    def binding(self, name: Literal["timeout", "cumulative_timeout"]) -> float | None: ...
    def binding(self, name: LimitName) -> float | None:
        """Return the value of a limit that stops runs. None when it is off, or in shadow, where it only votes."""
        value: float | None = getattr(self, name)
        return None if name in self.shadow else value

    def criteria(self) -> Iterator[tuple[str, Criterion]]:
        """Yield the criterion of each limit that is set, by the name of its setting."""
        for name, kind in LIMITS.items():
            settings = [getattr(self, setting) for setting in kind.made_of or (name,)]
            if not any(setting is None or setting == () for setting in settings):
                criterion = kind.made(*settings)
                yield name, Shadow(criterion) if name in self.shadow else criterion


def _declared() -> Iterator[tuple[str, type[Limit]]]:
    for field in msgspec.structs.fields(Limits):
        for kind in get_args(field.type)[1:]:
            if isinstance(kind, type) and issubclass(kind, Limit):
                yield field.name, kind


LIMITS: Mapping[str, type[Limit]] = dict(_declared())
"""The criterion of each limit by its setting, in the order in which they are asked."""
