"""The type variables of agents, results and tool contexts. Each has a default, so a bare name is a whole type."""

from typing_extensions import TypeVar

OutputT = TypeVar("OutputT", default=str)
"""The type of the answers of an agent."""
OutputT_co = TypeVar("OutputT_co", default=str, covariant=True)
ContextT = TypeVar("ContextT", default=None)
"""The type of what is said of a run of an agent; None for an agent that declares no context."""
DataT_co = TypeVar("DataT_co", default=object, covariant=True)
"""The type of the context as a tool or a validator sees it."""
ResourcesT_co = TypeVar("ResourcesT_co", default=object, covariant=True)
"""The type of what is open for the run."""
