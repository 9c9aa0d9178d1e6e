"""The names of the conventions are those of the package that publishes them; ours are under a prefix of our own."""

from steptrail.projections.telemetry.names import SCHEMA_URL, Name, Operation, Own

# From `opentelemetry-semantic-conventions` 0.66b2, module `_incubating.attributes.gen_ai_attributes`.
PUBLISHED = {
    "error.type",
    "exception.message",
    "gen_ai.agent.name",
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.operation.name",
    "gen_ai.output.messages",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.id",
    "gen_ai.response.model",
    "gen_ai.system_instructions",
    "gen_ai.token.type",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.result",
    "gen_ai.tool.name",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.workflow.name",
}


def test_the_names_of_the_conventions_are_those_that_were_published() -> None:
    assert set(Name) == PUBLISHED
    assert set(Operation) == {"chat", "execute_tool", "invoke_agent", "invoke_workflow"}
    assert SCHEMA_URL.endswith("/1.44.0")


def test_our_own_names_are_under_our_own_prefix() -> None:
    assert all(name.startswith("steptrail.") for name in Own)
