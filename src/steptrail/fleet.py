"""Engines that wake the workers of a fleet, and what they tell. The one on procrastinate needs the extra `fleet`."""

from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.runtime.kernel.engine import Engine, EngineStatus, Handler, TopicStatus, Wake, WorkerReport

__all__ = ["Engine", "EngineStatus", "Handler", "ProcrastinateEngine", "TopicStatus", "Wake", "WorkerReport"]
