"""All that a run of the benchmarks found, in one tree that becomes the JSON beside the tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.places import Site
from benchmarks.sessions import SessionFigures, measure_sessions
from benchmarks.starting import ImportFigures, ResumeFigures, measure_resume
from benchmarks.steps import GrowthFigures, StepFigures, measure_steps
from benchmarks.syncs import SyncFigures, measure_syncs

__all__ = ["Plan", "Results", "StoreResults", "measure_store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured. `session_steps` are spread over the sessions that run at once."""

    passes: int = 5
    sizes: Sequence[int] = (10, 100, 1_000, 10_000)
    resume_steps: int = 1_000
    sync_steps: int = 1_000
    sessions: Sequence[int] = (1, 8, 64)
    session_steps: int = 1_920


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResults:
    """What was found on one store; what could not be measured there is nothing."""

    name: str
    settings: dict[str, str]
    steps: Sequence[StepFigures]
    growth: GrowthFigures | None
    syncs: SyncFigures | None
    resume: ResumeFigures
    sessions: Sequence[SessionFigures]

    def at(self, steps: int) -> StepFigures:
        """Return the figures for runs of `steps` steps, or of the longest run when there was none of them."""
        exact = [figures for figures in self.steps if figures.steps == steps]
        return exact[0] if exact else self.longest

    @property
    def longest(self) -> StepFigures:
        """The figures for the longest run."""
        return max(self.steps, key=lambda figures: figures.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything. `absent` says why a store was not measured."""

    machine: dict[str, str]
    plan: Plan
    importing: ImportFigures
    stores: Sequence[StoreResults]
    absent: dict[str, str]

    def store(self, name: str) -> StoreResults | None:
        """Return what was found on a store, if it was measured."""
        return next((store for store in self.stores if store.name == name), None)


async def measure_store(site: Site, plan: Plan) -> StoreResults:
    """Measure one store after the plan."""
    steps, growth = await measure_steps(site, plan.sizes, plan.passes)
    return StoreResults(
        name=site.name,
        settings=site.settings(),
        steps=steps,
        growth=growth,
        # The syncs of a server are not those of this process.
        syncs=await measure_syncs(site, plan.sync_steps) if site.name == "SQLite" else None,
        resume=measure_resume(site, plan.resume_steps, plan.passes),
        sessions=await measure_sessions(site, plan.sessions, plan.session_steps, plan.passes),
    )
