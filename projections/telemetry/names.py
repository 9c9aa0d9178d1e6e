"""The names of attributes and operations of spans: those of OpenTelemetry's conventions, and Steptrail's own.

They are taken from the package `opentelemetry-semantic-conventions` 0.66b2.
"""

from collections.abc import Mapping
from enum import StrEnum

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the conventions by which the names of `Name` and `Operation` are chosen."""


class Operation(StrEnum):
    """The values of `gen_ai.operation.name`."""

    CHAT = "chat"
    EXECUTE_TOOL = "execute_tool"
    INVOKE_AGENT = "invoke_agent"
    INVOKE_WORKFLOW = "invoke_workflow"


class Name(StrEnum):
    """Names of attributes by the conventions."""

    AGENT_NAME = "gen_ai.agent.name"
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
    CONVERSATION_ID = "gen_ai.conversation.id"
    ERROR_TYPE = "error.type"
    EXCEPTION_MESSAGE = "exception.message"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_MESSAGES = "gen_ai.input.messages"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OPERATION = "gen_ai.operation.name"
    OUTPUT_MESSAGES = "gen_ai.output.messages"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    PROVIDER = "gen_ai.provider.name"
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
    REQUEST_MODEL = "gen_ai.request.model"
    RESPONSE_ID = "gen_ai.response.id"
    RESPONSE_MODEL = "gen_ai.response.model"
    SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
    TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - no password
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
    TOOL_CALL_ID = "gen_ai.tool.call.id"
    TOOL_NAME = "gen_ai.tool.name"
    TOOL_RESULT = "gen_ai.tool.call.result"
    WORKFLOW_NAME = "gen_ai.workflow.name"


class Own(StrEnum):
    """Names of attributes and events that are Steptrail's own."""

    ATTEMPT = "steptrail.attempt"
    BY = "steptrail.by"
    COMPACTED = "steptrail.conversation.compacted"
    COST = "steptrail.cost.usd"
    DECISION = "steptrail.decision"
    EFFECT = "steptrail.effect"
    EFFECT_ID = "steptrail.effect_id"
    ERRORS = "steptrail.errors"
    EXECUTION_ID = "steptrail.execution.id"
    FAILURES = "steptrail.failures"
    HAD_EFFECT = "steptrail.had_effect"
    INPUT = "steptrail.input"
    ITEM = "steptrail.item"
    LEFT_OUT = "steptrail.messages.left_out"
    LIMIT = "steptrail.limit"
    MODEL_SWITCHED = "steptrail.model.switched"
    NODE = "steptrail.node"
    OUTPUT = "steptrail.output"
    PARENT_EFFECT = "steptrail.parent.effect_id"
    PHASE = "steptrail.phase"
    PROJECTION = "steptrail.projection"
    RESOLVED_BY = "steptrail.resolved_by"
    RETRY = "steptrail.retry"
    SEGMENT = "steptrail.segment"
    SESSION_ID = "steptrail.session.id"
    SHOULD_CONTINUE = "steptrail.should_continue"
    STATUS = "steptrail.status"
    STEP = "steptrail.step"
    STOP_REASON = "steptrail.stop_reason"
    TOKENS_BEFORE = "steptrail.tokens_before"
    TOPIC = "steptrail.topic"
    VERSION = "steptrail.version"
    VISIT = "steptrail.visit"
    WAIT = "steptrail.wait"


CONTENT = frozenset(
    {
        Name.EXCEPTION_MESSAGE,
        Name.INPUT_MESSAGES,
        Name.OUTPUT_MESSAGES,
        Name.SYSTEM_INSTRUCTIONS,
        Name.TOOL_ARGUMENTS,
        Name.TOOL_RESULT,
        Own.INPUT,
        Own.OUTPUT,
    }
)
"""The attributes that hold content. No span has one of them unless somebody asked for it."""

MOST_CHARACTERS = 32_000
"""The longest content of one attribute, in characters."""

PROVIDERS: Mapping[str, str] = {"anthropic": "anthropic", "openai": "openai"}
"""The driver of a model -> its provider, by the conventions. Any other driver is called by its own name."""


class Metric(StrEnum):
    """Names of instruments: those of the conventions, and our own."""

    AGENT_DURATION = "gen_ai.invoke_agent.duration"
    OPERATION_DURATION = "gen_ai.client.operation.duration"
    TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - no password
    TOOL_DURATION = "gen_ai.execute_tool.duration"
    WORKFLOW_DURATION = "gen_ai.invoke_workflow.duration"
    COST = "steptrail.cost"
    DECISIONS = "steptrail.decisions"
    NODE_DURATION = "steptrail.node.duration"
    FLEET_OLDEST = "steptrail.fleet.oldest"
    FLEET_WAITING = "steptrail.fleet.waiting"
    OLDEST_DUE = "steptrail.oldest_due"
    OPEN = "steptrail.open"
    PROJECTION_LAG = "steptrail.projection.lag"
    RETRIES = "steptrail.retries"
    RUNS = "steptrail.runs"
    WAIT_DURATION = "steptrail.wait.duration"
    WORKER_RUNNING = "steptrail.worker.running"
    WORKER_WAKES = "steptrail.worker.wakes"
