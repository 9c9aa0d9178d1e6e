"""Lifecycle events, derived from the stored ones: what happens in a run, for listeners."""

from steptrail.projections.lifecycle.base import RunEvent
from steptrail.projections.lifecycle.fold import LifecycleFold, lifecycle_events

__all__ = ["LifecycleFold", "RunEvent", "lifecycle_events"]
