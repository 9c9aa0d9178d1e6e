"""The accumulators that `evolve` fills from the events of a session.

They change only inside one call of `evolve_all`, which works on copies. All other code sees them through the immutable
`AgentState`. Lists that grow with the session are `Log`s, so a copy costs the same at step 10 and at step 10,000.
"""

from msgspec import Struct, field, structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import ContinuationEvaluated, InferenceRequestAmended, ModelSwitched, RetryScheduled
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.shortened import Compacted, Shortened
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.log import Log
from steptrail.domain.messages import Message
from steptrail.domain.output import OutputMode, StepOutput
from steptrail.domain.prices import Cost
from steptrail.domain.shared.fold import ExecutionBase, FoldBase
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage, billed_together

HookPhase = tuple[str, int, int | None]
"""Hook type, step number and position of the tool call: they identify one run of the hooks of one moment."""


class StepFold(Struct):
    """The open step. Its `clock` shows its active time.

    `forbidden_by` is the name of the hook before or after the model call that forbade to go on with the step.
    `output_mode` is the way in which the model call asks for an answer of a type, and `output` is the verdict on it.
    `is_told_in_a_message` says that the model is told so by a message, and not by the result of a call.
    """

    number: int
    started_at: int
    clock: Stopwatch
    inference_attempt: int = 0
    model: str = ""
    inference_in_doubt: bool = False
    inference_given_up: bool = False
    forbidden_by: str | None = None
    reply: ModelReply | None = None
    inference_error: ErrorInfo | None = None
    amendments: tuple[InferenceRequestAmended, ...] = ()
    calls: list[ToolExecution] = []
    queued: tuple[Message, ...] = ()
    queued_origins: tuple[MessageOrigin, ...] = ()
    output_mode: OutputMode | None = None
    output: StepOutput | None = None
    is_told_in_a_message: bool = False

    @property
    def runs_no_calls(self) -> bool:
        """Whether its reply is not whole, so that none of its calls may begin. A call that has begun goes on."""
        return self.reply is not None and not self.reply.is_whole and not any(call.attempt for call in self.calls)


class ExecutionFold(ExecutionBase, kw_only=True):
    """The open execution, or the last one. The clock `wall` shows its wall time since the start or the last resume.

    `input` is the message that it answers. A retry has the input of the execution `retry_of`. `asked_again` says that a
    message came while the execution was paused. `waited` says that a wait for a time is over and no criterion has voted
    since. `tool_calls` counts the calls that were started by tool, and `tool_calls_refused` those beyond the limit.
    `usage` includes the bill of the sessions below this one, and `usage_below` is that part. `rejections` counts the
    answers in a row that were rejected. `answer_due` says that the next model call is the one of `OutputMode.LAST` that
    asks for the answer. `context` is what was said of the run. `agent` is the agent as it goes on by now, and
    `switched` says how many of its models were passed over. `switches` are the events that say why. `instructed` has
    the names of the instructions whose functions were asked before its newest step. `external_tools` were given for
    this execution alone; `agent` has them too. `compacted` is the newest compaction,
    and `compactions` counts those in a row since a reply has shown that the conversation fits.
    """

    input: Message | None
    agent: AgentSnapshot
    wall: Stopwatch
    switched: int = 0
    switches: tuple[ModelSwitched, ...] = ()
    steps: Log[AgentStep] = field(default_factory=Log[AgentStep])
    usage_below: Usage = Usage()
    active_us: int = 0
    consecutive_failures: int = 0
    total_failures: int = 0
    unanswered: bool = True
    votes: tuple[ContinuationEvaluation, ...] = ()
    guard_votes: tuple[ContinuationEvaluation, ...] = ()
    decided_votes: tuple[ContinuationEvaluation, ...] = ()
    decision: ContinuationEvaluated | None = None
    retry: RetryScheduled | None = None
    asked_again: bool = False
    waited: bool = False
    hooks_ran: frozenset[HookPhase] = frozenset()
    tool_calls: dict[str, int] = {}
    tool_calls_refused: int = 0
    retry_of: str | None = None
    rejections: int = 0
    answer_due: bool = False
    context: JsonValue = None
    instructed: tuple[str, ...] = ()
    external_tools: tuple[ToolSpec, ...] = ()
    compactions: int = 0
    compacted: Compacted | None = None

    def bill(self, usage: Usage, *models: ModelUsage) -> None:
        """Add a bill: the tokens, and the part of them for each model, as far as the models are known."""
        self.usage = self.usage + usage
        self.model_usage = billed_together(self.model_usage, models)

    @property
    def cost(self) -> Cost | None:
        """The cost of the execution so far; None when no prices are recorded."""
        prices = self.agent.limits.prices
        return None if prices is None else prices.cost(self.model_usage, billed=self.usage)


class SessionFold(FoldBase[Phase, ExecutionFold], kw_only=True):
    """A session after `version` events. `input_at` is the index of its newest input among the messages.

    `withdrawn` holds the indices of messages that are no longer shown to a model: answers that were given up when a
    retry began, or when an agent went on that answers in another form. `models_before` is what the executions before
    this one were billed, by model. `instructions` are the newest texts by the name of their function.
    `shortened` says what requests show of a conversation that was compacted. `context_tokens` is what the last request
    took, as its provider said; 0 when that is not known.
    """

    phase: Phase = Phase.ABSENT
    resume_to: Phase = Phase.BOUNDARY
    wait_origin: Phase = Phase.BOUNDARY
    agent_id: str = ""
    messages: Log[Message] = field(default_factory=Log[Message])
    origins: Log[MessageOrigin] = field(default_factory=Log[MessageOrigin])
    input_at: int = 0
    inferences: int = 0
    usage: Usage = Usage()
    models_before: tuple[ModelUsage, ...] = ()
    withdrawn: tuple[int, ...] = ()
    instructions: dict[str, str] = {}
    shortened: Shortened = Shortened()
    context_tokens: int = 0
    step: StepFold | None = None

    @property
    def goes_back_to(self) -> Phase:
        """The phase to which a recovery returns in the end, when the wait that it may return to first is over."""
        return self.wait_origin if self.resume_to is Phase.WAITING else self.resume_to

    @property
    def bill(self) -> BilledUsage:
        """The bill of all executions, with the sessions below them."""
        models = self.execution.model_usage if self.execution is not None else ()
        return BilledUsage.of(self.usage, billed_together(self.models_before, models))

    def charge(self, usage: Usage, *models: ModelUsage) -> None:
        """Add a bill to that of the session, and to that of its newest execution."""
        self.usage = self.usage + usage
        if self.execution is not None:
            self.execution.bill(usage, *models)

    def end_at(self, deadline: int | None) -> None:
        """Put the clocks forward to the deadline that has cut a call, if one has.

        A driver or a tool that keeps the deadline itself wakes up a little before it. What is left of the time then is
        no more time for the run, or microseconds would decide whether it does one thing more.
        """
        if deadline is not None and self.execution is not None:
            self.execution.wall = self.execution.wall.put_forward(deadline)
            if self.step is not None:
                self.step.clock = self.step.clock.put_forward(deadline)

    def copied(self) -> "SessionFold":
        """Return a copy that can be changed without changing this one."""
        other = structs.replace(self)
        if self.execution is not None:
            other.execution = structs.replace(self.execution)
        if self.step is not None:
            other.step = structs.replace(self.step)
            other.step.calls = list(self.step.calls)
        return other

    def say(self, message: Message, origin: MessageOrigin) -> None:
        """Add a message to the conversation, with its origin."""
        self.messages, self.origins = self.messages.appended(message), self.origins.appended(origin)
