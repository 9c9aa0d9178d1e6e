"""The state of a session, as `result.state` and `session.state()` hand it out: its steps, its calls, its statuses."""

from steptrail.domain.agent.info import StateInfo
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, CallStatus, OpenApproval, OpenCall, ToolExecution
from steptrail.domain.shared.run import ExecutionStatus

__all__ = [
    "AgentState",
    "AgentStep",
    "CallStatus",
    "ExecutionStatus",
    "OpenApproval",
    "OpenCall",
    "StateInfo",
    "ToolExecution",
]
