"""The commands that show something show the sessions of agents so."""

from steptrail.interfaces.cli.agent_state import agent_state_data, print_agent_state
from steptrail.interfaces.cli.agent_why import agent_why_data, print_agent_why
from steptrail.interfaces.cli.exits import exit_of
from steptrail.interfaces.cli.going_on import code_of_agent, how_to_go_on
from steptrail.interfaces.cli.kinds import KindShown
from steptrail.interfaces.cli.results import print_result, result_data
from steptrail.interfaces.cli.summaries import summary
from steptrail.projections.stop_reasons import STOP_REASON_TYPES
from steptrail.runtime.agent.result import RunResult

SHOWN_OF_AGENTS = KindShown(
    summary=summary,
    how_to_go_on=how_to_go_on,
    code_of=code_of_agent,
    result=RunResult,
    print_result=print_result,
    result_data=result_data,
    exit_of=exit_of,
    types=STOP_REASON_TYPES,
    print_state=print_agent_state,
    state_data=agent_state_data,
    print_why=print_agent_why,
    why_data=agent_why_data,
)
"""The words for the streams `agent:…`."""
