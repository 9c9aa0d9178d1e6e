"""Compares the answer to an external call with the type that its tool declares for results."""

from steptrail.domain.agent.commands import AnswerCall
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected


def refuse_unfit_result(state: AgentState, command: AnswerCall) -> None:
    """Raise `CommandRejected` for a result that does not fit; `MissingExtra` without the package that can tell."""
    call = next((call for call in state.tool_executions if call.effect_id == command.effect_id), None)
    spec = state.agent.tool(call.name) if call is not None and state.agent is not None else None
    schema = spec.external.result if spec is not None and spec.external is not None else None
    if call is None or schema is None:
        return
    from steptrail.domain.flow.kinds.port import NodeFault
    from steptrail.infrastructure.flow.schemas import JsonSchemas

    try:
        problems = JsonSchemas().problems(schema, command.result)
    except NodeFault as fault:
        problems = (str(fault),)
    if problems:
        why = f"the result of {call.name} does not fit: {'; '.join(problems)}"
        raise CommandRejected(command.DOING, state.agent_id, why)
