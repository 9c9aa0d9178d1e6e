from importlib import import_module

from steptrail import lifecycle
from steptrail.lifecycle import RunEvent
from steptrail.projections.broadcast.payloads import MESSAGES

import_module("steptrail.projections.broadcast.flow_payloads")  # which adds the messages of workflows

TOLD_BY_THE_STATUS = {
    *("AgentExecutionCompleted", "AgentExecutionFailed", "AgentExecutionPaused", "AgentExecutionResumed"),
    *("AgentExecutionStarted", "AgentExecutionStopped", "AgentExecutionUnpaused", "AgentExecutionWaitEnded"),
    *("AgentExecutionWaiting", "StopSignalReceived"),
    *("FlowExecutionCompleted", "FlowExecutionFailed", "FlowExecutionPaused", "FlowExecutionResumed"),
    *("FlowExecutionStarted", "FlowExecutionStopped", "FlowExecutionUnpaused", "FlowExecutionWaitEnded"),
    *("FlowExecutionWaiting", "FlowStopSignalReceived"),
}
TOLD_BY_A_STEP_OR_A_CALL = {
    *("HookExecuted", "InferenceRequestFailed", "InferenceRequestStarted", "InferenceResponseReceived"),
    *("TokenUsageReported", "ValidationFailed", "SubagentCompleted", "SubagentSpawning", "ToolCallSuspended"),
}


def test_a_lifecycle_event_has_a_message_of_its_own_unless_others_say_all_that_front_ends_are_to_know() -> None:
    offered = (getattr(lifecycle, name) for name in lifecycle.__all__)
    kinds = {each for each in offered if isinstance(each, type) and issubclass(each, RunEvent)}
    told = {each for each in kinds if not each.__subclasses__()}
    assert {each.__name__ for each in told - MESSAGES.by_class.keys()} == TOLD_BY_THE_STATUS | TOLD_BY_A_STEP_OR_A_CALL
    assert MESSAGES.by_class.keys() <= told
