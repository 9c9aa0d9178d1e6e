"""The names of attributes and operations of spans: those of OpenTelemetry's conventions, and Steptrail's own.

They are taken from the package `opentelemetry-semantic-conventions` 0.66b2.
"""

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["PROVIDERS", "SCHEMA_URL", "Name", "Operation", "Own"]

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
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OPERATION = "gen_ai.operation.name"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    PROVIDER = "gen_ai.provider.name"
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
    REQUEST_MODEL = "gen_ai.request.model"
    RESPONSE_ID = "gen_ai.response.id"
    RESPONSE_MODEL = "gen_ai.response.model"
    TOOL_CALL_ID = "gen_ai.tool.call.id"
    TOOL_NAME = "gen_ai.tool.name"
    WORKFLOW_NAME = "gen_ai.workflow.name"


class Own(StrEnum):
    """Names of attributes and events that are Steptrail's own."""

    ATTEMPT = "steptrail.attempt"
    COST = "steptrail.cost.usd"
    DECISION = "steptrail.decision"
    EFFECT = "steptrail.effect"
    EFFECT_ID = "steptrail.effect_id"
    ERRORS = "steptrail.errors"
    EXECUTION_ID = "steptrail.execution.id"
    FAILURES = "steptrail.failures"
    ITEM = "steptrail.item"
    LIMIT = "steptrail.limit"
    NODE = "steptrail.node"
    PHASE = "steptrail.phase"
    RESOLVED_BY = "steptrail.resolved_by"
    RETRY = "steptrail.retry"
    SEGMENT = "steptrail.segment"
    SESSION_ID = "steptrail.session.id"
    SHOULD_CONTINUE = "steptrail.should_continue"
    STATUS = "steptrail.status"
    STEP = "steptrail.step"
    STOP_REASON = "steptrail.stop_reason"
    VERSION = "steptrail.version"
    VISIT = "steptrail.visit"
    WAIT = "steptrail.wait"


PROVIDERS: Mapping[str, str] = {"anthropic": "anthropic", "openai": "openai"}
"""The driver of a model -> its provider, by the conventions. Any other driver is called by its own name."""
