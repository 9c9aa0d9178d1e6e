"""What the lives of an agent are drawn from: anything at all, or what makes much happen."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypedDict, TypeVar, get_args

from hypothesis import strategies as st

from steptrail.domain.agent.answer_to_judge import BROKEN_VALIDATOR
from steptrail.domain.agent.commands import Command, Send
from steptrail.domain.agent.config import AgentSnapshot, HookSpec
from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerAccepted,
    AnswerRejected,
    EvaluationsRecorded,
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InstructionsResolved,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.interruptions import model_interrupted
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import LimitName, Limits
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply
from steptrail.domain.instructions import InstructionsPlace, InstructionsSpec, InstructionsTime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Pause, Stop, Unpause
from steptrail.domain.messages import FilePart, Message, TextPart, ToolCallPart
from steptrail.domain.output import OutputMode, OutputProblem, OutputSpec
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.compaction import CompactionSpec
from steptrail.domain.policy.fallback import SWITCHING, FallbackModel, FallbackSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import PriceTable
from steptrail.domain.shared.run import CutBy
from steptrail.domain.shared.scores import GiveScore
from steptrail.domain.tools import ApprovalRule, ExternalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.domain.usage import BilledUsage
from steptrail.messages import File
from steptrail.testing.scenario import SECOND, START
from tests.properties.bills import billed, usage

T = TypeVar("T")


def weighted(*strategies: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """Choose among strategies; one that is named twice is chosen twice as often, which `one_of` would not do."""
    return st.sampled_from(strategies).flatmap(lambda chosen: chosen)


def rarely(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return weighted(*[st.none()] * 7, strategy)


PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
limits = st.builds(
    Limits,
    max_steps=st.sampled_from([4, 4, 3, 3, 2, 2, 1, 0]),
    max_tokens=rarely(st.integers(0, 60)),
    timeout=rarely(st.integers(1, 200).map(float)),
    cumulative_timeout=rarely(st.integers(1, 60).map(float)),
    finish_reasons=st.sampled_from([(), (FinishReason.OTHER,)]),
    max_unproductive_segments=st.integers(1, 3),
    max_concurrent_tools=st.sampled_from([8, 8, 2, 1]),
    max_tool_calls=rarely(st.integers(0, 4)),
    max_input_tokens=rarely(st.integers(0, 40)),
    max_output_tokens=rarely(st.integers(0, 40)),
    prices=st.just(PRICES),
    max_cost=rarely(st.integers(0, 90).map(lambda micros: Decimal(micros).scaleb(-6))),
    unpriced=st.sampled_from(["fail_closed", "warn", "ignore"]),
    shadow=st.lists(st.sampled_from(get_args(LimitName)), max_size=2).map(tuple),
)
backoffs = st.sampled_from([Backoff.none(), Backoff.linear(5.0), Backoff.exponential(2.0)])


def policy_of(preset: ErrorPolicy, backoff: Backoff, most: int) -> ErrorPolicy:
    return preset.with_backoff(backoff).with_max_retries(most)


presets = st.sampled_from([ErrorPolicy.ignore_tool_errors(), ErrorPolicy.retry_all(), ErrorPolicy.stop_on_any_error()])
policies = st.builds(policy_of, presets, backoffs, st.integers(0, 3))
effects, on_unknown = st.sampled_from(ToolEffect), st.sampled_from([*OnUnknown, OnUnknown.PARK])
retries = st.builds(ToolRetry, attempts=st.integers(1, 3), backoff=backoffs)
external = st.sampled_from([None, None, None, ExternalRule(expires=1.0), ExternalRule(expires=3600.0)])
rules = st.builds(ApprovalRule, expires=st.sampled_from([1.0, 3600.0]))
tools = st.tuples(
    *[
        st.builds(
            ToolSpec,
            name=st.just(name),
            effect=effects,
            on_unknown=on_unknown,
            approval=rarely(rules),
            concurrent=st.sampled_from([None, True, True, False]),
            retry=st.none() | retries,
            max_calls=rarely(st.integers(0, 2)),
            runs_children=rarely(st.just("agent")),
            external=external,
        )
        for name in "ab"
    ]
)


outputs = st.none() | st.builds(
    OutputSpec,
    name=st.just("final_result"),
    type_name=st.just("Count"),
    json_schema=st.just({"type": "object"}),
    mode=st.sampled_from(OutputMode),
    retries=st.integers(0, 2),
)


later_models = [FallbackModel(model=ModelInfo(driver="scripted", model=name)) for name in ("second", "third")]
fallbacks = st.none() | st.builds(
    FallbackSpec,
    models=st.sampled_from([tuple(later_models), tuple(later_models[:1]), tuple(later_models[1:])]),
    on=st.sampled_from([SWITCHING, SWITCHING[:1]]),
    after=st.sampled_from([1, 1, 2]),
)


instructing = st.tuples(
    *[
        st.builds(
            InstructionsSpec,
            name=st.just(name),
            every=st.sampled_from(InstructionsTime),
            at=st.sampled_from(InstructionsPlace),
        )
        for name in ("today", "mood")
    ]
)
instructions: st.SearchStrategy[tuple[InstructionsSpec, ...]] = weighted(st.just(()), st.just(()), instructing)


compactions = st.none() | st.builds(
    CompactionSpec,
    above=st.just(0.5),
    window=st.sampled_from([2, 2, 20]),
    keep_steps=st.integers(1, 2),
    clear_results_above=st.sampled_from([0, 9]),
    summarizer=st.sampled_from([None, "tests.summary"]),
)


def snapshots_of(
    limits: st.SearchStrategy[Limits],
    tools: st.SearchStrategy[tuple[ToolSpec, ...]],
    policies: st.SearchStrategy[ErrorPolicy],
) -> st.SearchStrategy[AgentSnapshot]:
    return st.builds(
        AgentSnapshot,
        name=st.just("random"),
        model=st.just(ModelInfo(driver="scripted", model="scripted")),
        fingerprint=st.sampled_from(["f1", "f2"]),
        tools=tools,
        limits=limits,
        error_policy=policies,
        output=outputs,
        fallback=fallbacks,
        instructions=instructions,
        compaction=compactions,
        hooks=st.lists(hook_types, max_size=3, unique=True).map(
            lambda types: tuple(HookSpec(name=f"hook.{each}", type=each) for each in types)
        ),
    )


class Summarised(TypedDict, total=False):
    """What comes of a wish for a summary."""

    summary: str
    by: str
    usage: BilledUsage | None
    problem: ErrorInfo


hook_types = st.sampled_from([*HookType, HookType.PRE_TOOL_USE, HookType.PRE_TOOL_USE])
errors = st.builds(
    ErrorInfo,
    type=st.sampled_from([*ErrorType, *SWITCHING, *SWITCHING]),
    error_class=st.just("tests:Error"),
    message=st.just("it failed"),
    code=st.sampled_from([None, "context_length_exceeded"]),
    retryable=st.booleans(),
    retry_after=st.none() | st.integers(0, 20).map(float),
)
UNFIT: dict[str, JsonValue] = {"n": "many"}
"""Arguments that fit no tool: nobody is asked about a call that has them."""
arguments = st.sampled_from([{"n": 1}, {"n": 1}, {"n": 1}, UNFIT])
calls = st.builds(
    ToolCallPart,
    id=st.sampled_from(["1", "2", "3"]),
    name=st.sampled_from(["a", "b", "a", "b", "final_result", "unknown"]),
    arguments=st.none() | arguments,
)
answered_by = st.sampled_from([None, None, "scripted", "scripted-2", "unheard-of"])
answers = st.builds(
    ModelReply,
    parts=st.sampled_from([(TextPart(text="done"),), ()]),
    finish_reason=st.sampled_from([FinishReason.STOP] * 5 + [*FinishReason]),
    usage=usage,
    response_model=answered_by,
)
requests = st.builds(
    ModelReply,
    parts=st.lists(calls, min_size=1, max_size=3).map(tuple),
    finish_reason=st.sampled_from([FinishReason.TOOL_CALLS] * 12 + [*FinishReason]),
    usage=usage,
    response_model=answered_by,
)
results = st.sampled_from(["ok", None, 7, {"rows": [1, 2]}, "long " * 20])
TOOK = st.just(1.0)


def model_calls(replies: st.SearchStrategy[ModelReply], *, stopped: bool) -> st.SearchStrategy[AgentEvent]:
    """Return how a model call may end."""
    completed: st.SearchStrategy[AgentEvent] = st.builds(InferenceCompleted, reply=replies, duration_seconds=TOOK)
    failed: st.SearchStrategy[AgentEvent] = st.builds(InferenceFailed, error=errors, duration_seconds=TOOK)
    cut: st.SearchStrategy[AgentEvent] = st.just(model_interrupted("stop"))
    return weighted(*[completed] * 5, failed, *[cut] * stopped)


def tool_calls(position: int) -> st.SearchStrategy[AgentEvent]:
    """Return how a tool execution may end."""
    at = st.just(position)
    completed: st.SearchStrategy[AgentEvent] = st.builds(
        ToolExecutionCompleted, position=at, result=results, files=st.sampled_from([(), (SHOT,)]), duration_seconds=TOOK
    )
    failed: st.SearchStrategy[AgentEvent] = st.builds(
        ToolExecutionFailed,
        position=at,
        error=errors,
        duration_seconds=TOOK,
        may_retry=st.sampled_from([True, True, False]),
    )
    cut: st.SearchStrategy[AgentEvent] = st.just(
        ToolExecutionInterrupted(
            position=position, reason="deadline", cut_by=CutBy.TOOL_TIMEOUT, then=Then.TELL, duration_seconds=0.0
        )
    )
    suspended: st.SearchStrategy[AgentEvent] = st.builds(
        ToolExecutionSuspended,
        position=at,
        duration_seconds=TOOK,
        session=st.just("child"),
        reason=st.just("waits"),
        until=rarely(st.just(START + 3600 * SECOND)),
        usage=rarely(billed),
    )
    return weighted(*[completed] * 4, *[failed] * 2, *[cut] * 2, suspended)


def summaries(by: str) -> st.SearchStrategy[Summarised]:
    """Return what may come of a wish for a summary."""
    made = st.builds(Summarised, summary=st.just("so far"), by=st.just(by), usage=st.none() | billed)
    return weighted(made, made, st.builds(Summarised, by=st.just(by), usage=st.none() | billed, problem=errors))


def answers_in(step: int, positions: list[int]) -> st.SearchStrategy[tuple[AgentEvent, ...]]:
    """Return how the answer of a step may be judged, in one of the calls at these positions, or in the text."""
    at = st.sampled_from(positions) if positions else st.none()
    problem = OutputProblem(at="n", type="int_parsing", message="no number")
    accepted: st.SearchStrategy[AgentEvent] = st.builds(
        AnswerAccepted, step=st.just(step), position=at, is_changed=st.booleans(), value=st.just({"n": 1})
    )
    rejected: st.SearchStrategy[AgentEvent] = st.builds(
        AnswerRejected, step=st.just(step), position=at, problems=st.just((problem,))
    )
    vote = ContinuationEvaluation.from_decision("validator", ContinuationDecision.FORBID)
    broken: tuple[AgentEvent, ...] = (
        EvaluationsRecorded(votes=(vote,), hook="validator"),
        HooksRan(hook_type=BROKEN_VALIDATOR, step=step, hooks=("validator",), forbidden_by="validator"),
    )
    verdicts = weighted(accepted, accepted, rejected, rejected).map(lambda event: (event,))
    return weighted(verdicts, verdicts, verdicts, st.just(broken))


def instructed(names: tuple[str, ...], votes: tuple[ContinuationDecision, ...]) -> st.SearchStrategy[list[AgentEvent]]:
    """Return which texts of instructions changed, or that a function failed where hooks may vote to forbid."""
    vote = ContinuationEvaluation.from_decision(names[0], ContinuationDecision.FORBID)
    broken: list[AgentEvent] = [EvaluationsRecorded(votes=(vote,), hook=names[0])]
    texts = st.lists(
        st.builds(InstructionsResolved, name=st.sampled_from(names), text=st.sampled_from(["", "a", "b"])),
        unique_by=lambda event: event.name,
    ).map(lambda events: list[AgentEvent](events))
    return weighted(*[texts] * 7, st.just(broken)) if ContinuationDecision.FORBID in votes else texts


VERDICTS: tuple[Literal["completed", "failed", "rerun", "tell"], ...] = ("completed", "failed", "rerun", "tell")
PAUSE, UNPAUSE, STOP = Pause(by="ana"), Unpause(by="ana"), Stop(by="ana")
SCORE = GiveScore(name="helpful", value=1, by="ana", step=1)
SHOT = FilePart(digest="0" * 64, mime_type="image/png", size=3)
SEND = Send(messages=(Message.user("and this?", File.from_bytes(b"a file", name="a")),))


@dataclass(frozen=True)
class Mix:
    """What a life is drawn from. `pauses` are seconds between two segments, `hook_changes` what hooks do at most."""

    snapshots: st.SearchStrategy[AgentSnapshot]
    limits: st.SearchStrategy[Limits]
    replies: st.SearchStrategy[ModelReply]
    commands: tuple[Command, ...]
    pauses: tuple[int, ...]
    comes_back: tuple[bool, ...]
    """Whether the process ends while it waits and comes back later, or sits the wait out."""
    answers: tuple[bool, ...]
    hook_changes: int
    votes: tuple[ContinuationDecision, ...]
    """What hooks vote."""


ANYTHING = Mix(
    snapshots=snapshots_of(limits, tools, policies),
    limits=limits,
    replies=weighted(requests, requests, answers),
    commands=(PAUSE, STOP, SEND, SCORE),
    pauses=(0, 1, 3600, 7 * 86_400),
    comes_back=(True, False),
    answers=(True, False),
    hook_changes=2,
    votes=tuple(ContinuationDecision),
)

# Nothing ends such a life early, every tool asks somebody or may be retried, and people answer in time.
roomy = st.builds(
    Limits,
    max_steps=st.sampled_from([3, 2]),
    timeout=st.none(),
    max_unproductive_segments=st.just(9),
    max_concurrent_tools=st.sampled_from([8, 8, 2, 1]),
    prices=st.just(PRICES),
)
patient = st.builds(
    policy_of,
    st.sampled_from([ErrorPolicy.retry_all(), ErrorPolicy.ignore_tool_errors()]),
    backoffs,
    st.just(9),
)
eventful_tools = st.tuples(
    *[
        st.builds(
            ToolSpec,
            name=st.just(name),
            effect=effects,
            on_unknown=on_unknown,
            approval=st.sampled_from([ApprovalRule(expires=3600.0), ApprovalRule(expires=300.0), None, None]),
            retry=st.builds(ToolRetry, attempts=st.integers(2, 3), backoff=backoffs),
        )
        for name in "ab"
    ]
)
eventful_requests = st.builds(
    ModelReply,
    parts=st.sets(st.sampled_from("123"), min_size=2).flatmap(
        lambda ids: st.tuples(
            *[
                st.builds(
                    ToolCallPart,
                    id=st.just(each),
                    name=st.sampled_from(["a", "b", "a", "b", "final_result"]),
                    arguments=arguments,
                )
                for each in sorted(ids)
            ]
        )
    ),
    finish_reason=st.just(FinishReason.TOOL_CALLS),
    usage=usage,
    response_model=answered_by,
)
plain_answers = st.builds(
    ModelReply, parts=st.just((TextPart(text="done"),)), finish_reason=st.just(FinishReason.STOP), usage=usage
)
EVENTFUL = Mix(
    snapshots=snapshots_of(roomy, eventful_tools, patient),
    limits=roomy,
    replies=weighted(eventful_requests, eventful_requests, eventful_requests, plain_answers),
    commands=(PAUSE, SEND, PAUSE, SEND, STOP, SCORE),
    pauses=(0, 1, 600),
    comes_back=(True, True, True, False),
    answers=(True, True, True, False),
    hook_changes=3,
    votes=(ContinuationDecision.ALLOW, ContinuationDecision.REQUEST),
)
