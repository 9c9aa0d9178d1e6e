"""Compares the answer to an external call with the type that its tool declares for results."""

from collections.abc import Mapping, Sequence

from steptrail.domain.agent.commands import AnswerCall
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected
from steptrail.domain.json_value import JsonValue


def misfits(schema: Mapping[str, JsonValue], result: JsonValue) -> Sequence[str]:
    """Return why a result does not fit a schema; none when it does. Raises `MissingExtra` without `jsonschema`."""
    from steptrail.domain.flow.kinds.port import NodeFault
    from steptrail.infrastructure.flow.schemas import JsonSchemas

    try:
        return JsonSchemas().problems(schema, result)
    except NodeFault as fault:
        return (str(fault),)


def refuse_unfit_result(state: AgentState, command: AnswerCall) -> None:
    """Raise `CommandRejected` for a result that does not fit; `MissingExtra` without the package that can tell."""
    call = next((call for call in state.tool_executions if call.effect_id == command.effect_id), None)
    schema = state.agent.result_schema(call.name) if call is not None and state.agent is not None else None
    if call is not None and schema is not None and (problems := misfits(schema, command.result)):
        why = f"the result of {call.name} does not fit: {'; '.join(problems)}"
        raise CommandRejected(command.DOING, state.agent_id, why)
