"""The two works that are compared: steps of an agent, and nodes of a workflow.

The workflow is three nodes one after another: a function makes the arguments of a tool, the tool has an effect in the
world, and a function makes the answer of what the tool returned. Each is durable before the next begins.
"""

from enum import StrEnum

_NODES = 3


class Scenario(StrEnum):
    """A work, by its name on the command line."""

    AGENT = "agent"
    WORKFLOW = "workflow"

    @property
    def unit(self) -> str:
        """Return what the figures are for one of."""
        return "node" if self is Scenario.WORKFLOW else "step"

    def units(self, times: int) -> int:
        """Return the units of `times` steps of an agent, or runs of the workflow."""
        return times * _NODES if self is Scenario.WORKFLOW else times

    def described(self, at_once: int, times: int) -> str:
        """Return how much there is to do: `times` each, in `at_once` sessions or chains of runs."""
        if self is Scenario.AGENT:
            return f"{'1 session' if at_once == 1 else f'{at_once} sessions at once'} of {times} steps"
        if at_once == 1:
            return f"{times} runs of a workflow of {_NODES} nodes, one after another"
        return f"{at_once * times} runs of a workflow of {_NODES} nodes, {at_once} at once"
