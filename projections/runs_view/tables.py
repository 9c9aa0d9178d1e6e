"""The tables of runs, for agents and workflows: each column with its meaning and its unit.

An instant is in microseconds of UTC, a duration in microseconds, a cost in billionths of a dollar. A text that is part
of a key is empty where there is none. Nothing that people, models or tools said is in any column, except for tags,
labels and what is left of the message of an error without its values.
"""

from steptrail.projections.kernel.table import INSTANT, MILLIONTHS, Column, ColumnKind, Index, Table

TOKENS = ("tokens_input", "tokens_output", "tokens_cache_write", "tokens_cache_read", "tokens_reasoning")
"""The five disjoint kinds of tokens, as columns."""

SUSPENDED = "suspended"
"""The status of a try that ended because the stream below it rests. What comes after it is a look, and no try."""

VERSION = 3
"""The version of the read model. It grows where a row of the same events holds something else from now on."""


def named(table: str) -> str:
    """Return the name of a table of this version."""
    return f"v{VERSION}_{table}"


def _text(name: str, says: str, *, is_optional: bool = False) -> Column:
    return Column(name, ColumnKind.TEXT, says, is_optional=is_optional)


def _maybe(name: str, says: str) -> Column:
    return _text(name, says, is_optional=True)


def _count(name: str, says: str, unit: str = "", *, is_optional: bool = False) -> Column:
    return Column(name, ColumnKind.INTEGER, says, unit, is_optional)


def _at(name: str, says: str, *, is_optional: bool = False) -> Column:
    return _count(name, says, INSTANT, is_optional=is_optional)


def _us(name: str, says: str, *, is_optional: bool = False) -> Column:
    return _count(name, says, "microseconds", is_optional=is_optional)


def _nanos(name: str, says: str) -> Column:
    return _count(name, says, "10^-9 dollars", is_optional=True)


def _flag(name: str, says: str) -> Column:
    return Column(name, ColumnKind.BOOLEAN, says)


def _tokens() -> tuple[Column, ...]:
    return tuple(_count(name, f"Tokens of the kind {name.removeprefix('tokens_')}.", "tokens") for name in TOKENS)


_EXECUTION = _count("execution", "The execution: the position in the log at which it began.")
_ERROR_TYPE = _maybe("error_type", "The class of its error by which the error policy decides, such as `rate_limit`.")
_ERROR_CLASS = _maybe("error_class", "The class of its exception, as `module:QualName`.")
_SIGNATURE = _maybe("signature", "The signature of its error; see `signatures`.")
_ERROR = (_ERROR_TYPE, _ERROR_CLASS, _SIGNATURE)
_ERROR_OF_NODE = (
    _maybe("error_type", "The failure class of its error, such as `unavailable`."),
    _ERROR_CLASS,
    _SIGNATURE,
)
_VERSION = _count("version", "The version in the stream of the event that began it.")
_END_VERSION = _count("end_version", "The version of the event that ended it; None while it is open.", is_optional=True)

EXECUTIONS = Table(
    name=named("executions"),
    says="Executions: one run each, from an input to a stop. A row is as of its `version`.",
    key=("execution",),
    aged_by="ended_at",
    of_stream="stream",
    columns=(
        _EXECUTION,
        _text("stream", "The stream with its prefix, such as `agent:tea-77`."),
        _text("kind", "The kind of the stream: `agent` or `flow`."),
        _count("ordinal", "The number of the execution in its stream, from 1."),
        _text("name", "The name of the agent or of the workflow."),
        _maybe("model", "The model that the agent asks; None for a workflow."),
        _maybe("fingerprint", "The digest of the configuration of the agent, or of the workflow with those it runs."),
        _maybe("worker", "The process that drove it last; None before any has begun with it."),
        _text("tenant", "The tenant: the text in the metadata under `tenant`; empty for none."),
        _maybe("parent", "The stream whose effect began this stream; None when a caller did."),
        _maybe("parent_effect", "The id of that effect, such as of a tool call."),
        _maybe("root", "The stream at the top of its tree; None for a stream without a parent."),
        _text("status", "Its status: pending, in_progress, waiting, paused, completed, failed or stopped."),
        _maybe("stop_reason", "Why it stopped, such as `completed` or `steps_limit`; None while it is open."),
        _maybe(
            "resolved_by", "The criterion, or the rule of the workflow, that decided the end; None while it is open."
        ),
        _flag("answered", "Whether it ended with an answer of its own, also at a limit."),
        _maybe("waits_for", "The kind of the wait that it is in; None when it waits for nothing."),
        _maybe("error_type", "The class of the error because of which it failed; None for any other end."),
        _maybe("error_class", "The class of the exception of that error."),
        _maybe("signature", "The signature of that error; see `signatures`."),
        _count("segments", "How many segments it had: the start, if a process began with it at once, and the resumes."),
        _count("steps", "Steps that ended; of a workflow, visits of nodes that ended."),
        _count("tool_calls", "Calls of tools that were started; of a workflow, tries of nodes that were started."),
        _count("errors", "Steps that failed; of a workflow, visits and items that failed for good."),
        _count(
            "retries", "Tries again: of steps, of tool calls and of nodes. A look after a stream that rests is none."
        ),
        _count("approvals", "Questions to people: whether a call may run, and those of the nodes of a workflow."),
        _at("started_at", "When it began."),
        _at("ended_at", "When it ended; None while it is open.", is_optional=True),
        _us("active_us", "The time in which a step or a node was at work."),
        _us("wall_us", "The time from its start to its end, or to its newest event."),
        _us("idle_us", "The time of its waits and pauses, and after crashes: the sum over `rests`."),
        _us("people_us", "The part of that in which it waited for a person, or was paused."),
        *_tokens(),
        _count("wasted_tokens", "The part of its tokens that steps used that failed.", "tokens"),
        _nanos("cost_nanos", "The cost of its own model calls; None when it has no prices."),
        _nanos("wasted_nanos", "The part of that cost that steps used that failed; None when it has no prices."),
        _flag(
            "is_unpriced", "Whether it has prices, and some of its own usage has none: then the cost is a lower bound."
        ),
        _count(
            "tree_tokens", "Its tokens, and those of the streams below it as far as it has heard of them.", "tokens"
        ),
        _nanos("tree_cost_nanos", "The cost of these; None when it has no prices."),
        _count("first_version", "The version in the stream of its first event."),
        _count("version", "The version of the newest event that the row knows."),
    ),
    indexes=(
        Index(("stream", "ordinal")),
        Index(("status", "execution")),
        Index(("stop_reason", "execution")),
        Index(("name", "execution")),
        Index(("signature", "execution"), "signature IS NOT NULL"),
        Index(("tenant", "execution")),
        Index(("cost_nanos", "execution")),
        Index(("active_us", "execution")),
        Index(("retries", "execution")),
        Index(("root", "execution"), "root IS NOT NULL"),
        Index(("parent", "execution"), "parent IS NOT NULL"),
        Index(("started_at",)),
    ),
)

STEPS = Table(
    name=named("steps"),
    says="Steps of agents: one model call each, and the tool calls of its reply.",
    key=("execution", "step"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("step", "The number of the step in its execution, from 1."),
        _text("status", "in_progress, completed, failed, or given_up when there was no reply and no error."),
        _at("started_at", "When it began."),
        _us("active_us", "The time in which it was at work; 0 while it is open."),
        _count("errors", "How many errors it had."),
        _count("tool_calls", "How many tool calls the model asked for."),
        *_tokens(),
        _nanos("cost_nanos", "The cost of its model call; None without a price."),
        _VERSION,
        _END_VERSION,
    ),
)

INFERENCES = Table(
    name=named("inferences"),
    says="Model calls of agents, also those that were cut off and made again.",
    key=("execution", "step", "attempt"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("step", "The step that it belongs to."),
        _count("attempt", "Its number in the step, from 1."),
        _text("model", "The model that was asked for."),
        _maybe("answered_by", "The model that the reply named; None when it named none."),
        _text("status", "in_progress, completed, failed or interrupted."),
        _maybe("finish_reason", "Why the model stopped writing; None without a reply."),
        _maybe("raw_finish_reason", "The same in the provider's own word."),
        _at("started_at", "When it was begun."),
        _us("duration_us", "How long it took, if it ended by itself.", is_optional=True),
        *_tokens(),
        _nanos("cost_nanos", "What it cost; None without a price."),
        _maybe("cut_by", "What cut it off: crash, stop, cancelled or deadline; None when nothing did."),
        *_ERROR,
        _VERSION,
        _END_VERSION,
    ),
    indexes=(Index(("signature", "execution"), "signature IS NOT NULL"),),
)

TOOL_CALLS = Table(
    name=named("tool_calls"),
    says="Tool calls of agents, each with its newest try.",
    key=("execution", "step", "call"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("step", "The step that it belongs to."),
        _count("call", "Its place in the model's reply, from 0."),
        _text("tool", "The name of the tool that the model asked for."),
        _maybe(
            "effect", "The effect class of the tool: read, idempotent, keyed or unsafe; None before it was started."
        ),
        _maybe("effect_id", "The id of its effect, which stays over tries; None before it was started."),
        _text("status", "pending, running, completed, failed, blocked, denied, cancelled or interrupted."),
        _count("attempts", "How often it was started."),
        _at("started_at", "When its newest try was started; None when there was none.", is_optional=True),
        _us("duration_us", "How long that try took; None while it is open, or when nobody knows.", is_optional=True),
        *_ERROR,
        _maybe("child", "The stream that it ran, as far as it was told; None for none."),
        _maybe("approval", "What became of the question whether it may run: asked, granted, denied or expired."),
        _maybe("approved_by", "Who granted or denied it."),
        _maybe("settled_by", "Who reported its outcome in place of the tool; None when nobody had to."),
        _flag("is_answer", "Whether its arguments are the answer, and no tool was run."),
        _VERSION,
        _END_VERSION,
    ),
    indexes=(
        Index(("tool", "execution", "effect"), "status <> 'completed'"),
        Index(("effect", "execution"), "status <> 'completed'"),
        Index(("signature", "execution"), "signature IS NOT NULL"),
        Index(("effect_id",)),
    ),
)

ATTEMPTS = Table(
    name=named("attempts"),
    says="Tries of tool calls that another try, or a cancellation, came after. The row of the call is its newest try.",
    key=("execution", "step", "call", "attempt"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("step", "The step of its call."),
        _count("call", "The place of its call in the model's reply, from 0."),
        _count("attempt", "Its number, from 1."),
        _text("tool", "The name of the tool."),
        _text("status", "failed, interrupted or suspended."),
        _at("started_at", "When it was started."),
        _us("duration_us", "How long it took; None when nobody knows.", is_optional=True),
        *_ERROR,
        _VERSION,
        _END_VERSION,
    ),
)

RESTS = Table(
    name=named("rests"),
    says="Times in which an execution did not work: it waited, was paused, or its process had crashed.",
    key=("execution", "version"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("version", "The version of the event that began it; of a crash, of the last event before it."),
        _text(
            "kind",
            "pause, crash, worker while it waited for a process to go on, or the kind of the wait, such as approval, "
            "retry, child or human.",
        ),
        _flag("is_for_people", "Whether it waited for a person, or was paused."),
        _at("started_at", "When it began."),
        _at("until", "When it was to end by itself; None when it was not.", is_optional=True),
        _at("ended_at", "When it ended; None while it lasts.", is_optional=True),
        _maybe("by", "Who paused it; None for a wait."),
        _maybe("ending", "How it ended: resumed, paused, finished, or why the wait ended, such as due or approved."),
        _maybe("ended_by", "Who ended the wait, or resumed it; None when nobody had to."),
        _END_VERSION,
    ),
    indexes=(Index(("kind", "started_at"), "ended_at IS NULL"),),
)

OUTCOMES = Table(
    name=named("outcomes"),
    says="Decisions whether an execution of an agent goes on.",
    key=("execution", "version"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("version", "The version of the decision."),
        _count("step", "The step after which it was taken; 0 before the first."),
        _text("phase", "The moment: boundary, resume or stop."),
        _text("decision", "The strongest vote: forbid, request, stop or allow."),
        _flag("should_continue", "Whether the execution goes on."),
        _text("resolved_by", "The criterion whose vote decided."),
        _maybe("stop_reason", "Why it stops; None when it goes on."),
        _flag("retries", "Whether it goes on to try the failed step again."),
        _flag("answered", "Whether it stops with an answer."),
        _at("at", "When it was taken."),
    ),
    indexes=(Index(("resolved_by", "execution"), "NOT should_continue"),),
)

EVALUATIONS = Table(
    name=named("evaluations"),
    says="Votes on whether an execution goes on, without those that allowed it and would have in any case.",
    key=("execution", "version", "n"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("version", "The version of the event that holds the vote."),
        _count("n", "The place of the vote in that event, from 0."),
        _count("step", "The newest step that had begun; 0 before the first."),
        _text("phase", "The moment: boundary, resume, stop or end."),
        _text("criterion", "The criterion that voted."),
        _text("decision", "Its vote: forbid, request, stop or allow."),
        _maybe("stop_reason", "The stop reason that it gave."),
        _maybe("shadow", "What a criterion in shadow would have voted; None for a vote that counts."),
        _maybe("hook", "The hook that voted; None for a criterion."),
        _maybe("setting", "The setting of the agent by which it voted, such as `max_steps`."),
        _maybe("used", "What a limit found to be used, as the text of a number; None for any other criterion."),
        _maybe("at_most", "What that limit allows, as the text of a number."),
    ),
    indexes=(Index(("shadow", "execution"), "shadow IS NOT NULL"),),
)

TAGS = Table(
    name=named("tags"),
    says="Tags of executions: the plain values in the metadata under `tags`, at most 16: the first by their names.",
    key=("name", "value", "execution"),
    belongs_to=EXECUTIONS,
    columns=(
        _text("name", "The name of the tag."),
        _text("value", "Its value as text.")._replace(is_private=True),
        _EXECUTION,
    ),
)

SCORES = Table(
    name=named("scores"),
    says="Scores that count: the newest of each name, by the same, of the same execution or step.",
    key=("execution", "step", "name", "by"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _count("step", "The step that was scored; 0 for the execution as a whole."),
        _text("name", "The name of the score."),
        _text("by", "Who scored."),
        _text("kind", "The kind of its value: number, truth or label."),
        _count(
            "value_millionths",
            "The number, rounded to six decimals; of a truth value 1 or 0; None for a label.",
            MILLIONTHS,
            is_optional=True,
        ),
        _maybe("label", "The label; None for a number.")._replace(is_private=True),
        _at("scored_at", "When it was given."),
        _count("version", "The version of its event."),
    ),
    indexes=(Index(("name", "value_millionths", "execution"), "step = 0"),),
)

SIGNATURES = Table(
    name=named("signatures"),
    says="Kinds of failures: errors with equal type, class, tool and template have one signature.",
    key=("signature",),
    columns=(
        _text("signature", "64 bits of BLAKE2b over the other columns, as 16 hexadecimal digits."),
        _text(
            "error_type", "The class of the error by which the error policy decides, or the failure class of a node."
        ),
        _text("error_class", "The class of the exception, as `module:QualName`."),
        _text(
            "tool", "The tool or the node that failed, or the criterion or hook that raised; empty for a model call."
        ),
        _text("template", "The message without quoted text, numbers, and ids; at most 200 characters."),
    ),
)

VISITS = Table(
    name=named("visits"),
    says="Visits of the nodes of workflows. A visit that is taken up again by a retry of the run has a row in each.",
    key=("execution", "node", "visit"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _text("node", "The id of the node."),
        _count("visit", "The number of the visit among those of the node, from 1."),
        _count("number", "Its number among the visits of all nodes, from 1."),
        _text(
            "status",
            "in_progress, completed, recorded when the run went on after its failure, failed, skipped or cancelled.",
        ),
        _maybe("effect", "The effect class of its newest try: read, idempotent, keyed or unsafe; None before any."),
        _at("started_at", "When it was opened, or taken up again by a retry of the run."),
        _at("ended_at", "When it ended; None while it is open.", is_optional=True),
        _us("active_us", "The sum of the times of its tries."),
        _count("attempts", "How many tries were started."),
        _count("items", "The length of the list of a map; None for any other node.", is_optional=True),
        _count("item_errors", "How many items of a map failed, and the visit went on."),
        *_tokens(),
        _nanos("cost_nanos", "The cost of its own model calls; None without a price."),
        _maybe("rule", "The setting that decided what comes of its failure."),
        _maybe("reason", "Why it was cancelled: stop, sibling, limit, abort or cancelled."),
        *_ERROR_OF_NODE,
        _VERSION,
        _END_VERSION,
    ),
    indexes=(
        Index(("node", "execution", "effect"), "status <> 'completed'"),
        Index(("effect", "execution"), "status <> 'completed'"),
        Index(("signature", "execution"), "signature IS NOT NULL"),
    ),
)

TRIES = Table(
    name=named("tries"),
    says="Tries of nodes of workflows, and of the items of maps.",
    key=("execution", "node", "visit", "item", "attempt"),
    belongs_to=EXECUTIONS,
    columns=(
        _EXECUTION,
        _text("node", "The id of the node."),
        _count("visit", "The number of the visit among those of the node, from 1."),
        _count("item", "The index of the item of a map; -1 for the visit as a whole."),
        _count("attempt", "Its number, from 1; 0 for what failed before it was tried."),
        _maybe("effect", "The effect class of the node: read, idempotent, keyed or unsafe."),
        _maybe("effect_id", "The id of its effect, which stays over tries."),
        _text("status", "running, completed, failed, interrupted or suspended."),
        _at("started_at", "When it was started; None for what failed before it was tried.", is_optional=True),
        _us("duration_us", "How long it took; None while it is open, or when nobody knows.", is_optional=True),
        _maybe("cut_by", "What cut it off, such as crash, stop or timeout; None when nothing did."),
        *_ERROR_OF_NODE,
        _maybe("child", "The stream that it ran, as far as it was told; None for none."),
        _maybe("settled_by", "Who reported its outcome in place of the node."),
        *_tokens(),
        _nanos("cost_nanos", "What it cost, without the streams below it; None without a price."),
        _VERSION,
        _END_VERSION,
    ),
    indexes=(
        Index(("signature", "execution"), "signature IS NOT NULL"),
        Index(("effect_id",)),
    ),
)

ROWS = (
    EXECUTIONS,
    STEPS,
    INFERENCES,
    TOOL_CALLS,
    ATTEMPTS,
    RESTS,
    OUTCOMES,
    EVALUATIONS,
    TAGS,
    SCORES,
    SIGNATURES,
    VISITS,
    TRIES,
)
"""The tables of rows. Those of sums are in `sums`."""
