"""Answers in a type: what `AgentBuilder.with_output` and its validators need."""

from steptrail.domain.output import OutputMode, OutputProblem, OutputSpec, OutputVerdict
from steptrail.runtime.agent.output import (
    AgentOutput,
    KnowsOutputModes,
    OutputContext,
    OutputModeName,
    OutputRejected,
    Validator,
)

__all__ = [
    "AgentOutput",
    "KnowsOutputModes",
    "OutputContext",
    "OutputMode",
    "OutputModeName",
    "OutputProblem",
    "OutputRejected",
    "OutputSpec",
    "OutputVerdict",
    "Validator",
]
