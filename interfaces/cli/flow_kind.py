"""The commands that show something show the runs of workflows so."""

from steptrail.interfaces.cli.flow_going_on import code_of_flow, how_a_flow_goes_on
from steptrail.interfaces.cli.flow_results import exit_of_flow, flow_result_data, print_flow_result
from steptrail.interfaces.cli.flow_state import TYPES, flow_state_data, print_flow_state
from steptrail.interfaces.cli.flow_summaries import flow_summary
from steptrail.interfaces.cli.flow_why import flow_why_data, print_flow_why
from steptrail.interfaces.cli.kinds import KindShown
from steptrail.runtime.flow.result import FlowResult

SHOWN_OF_FLOWS = KindShown(
    summary=flow_summary,
    how_to_go_on=how_a_flow_goes_on,
    code_of=code_of_flow,
    result=FlowResult,
    print_result=print_flow_result,
    result_data=flow_result_data,
    exit_of=exit_of_flow,
    types=TYPES,
    print_state=print_flow_state,
    state_data=flow_state_data,
    print_why=print_flow_why,
    why_data=flow_why_data,
)
"""The words for the streams `flow:…`."""
