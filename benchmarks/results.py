"""All that a run of the benchmarks found, in one tree that becomes the JSON beside the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.asking import AnswerFigures, measure_asking
from benchmarks.auditing import WhatIfFigures, measure_what_if
from benchmarks.flows import ChainFigures, FanFigures, measure_chains, measure_fans
from benchmarks.followers import FollowerFigures, measure_followers
from benchmarks.importing import ImportFigures
from benchmarks.listing import IndexFigures, ListFigures, measure_index, measure_lists
from benchmarks.places import Site
from benchmarks.postgres_place import PostgresSite
from benchmarks.projecting import BesideFigures, ProjectorFigures, measure_beside, measure_projector
from benchmarks.sessions import SessionFigures, measure_sessions
from benchmarks.several import Fleet, SeveralFigures, measure_several
from benchmarks.starting import ResumeFigures, measure_resume
from benchmarks.steps import GrowthFigures, StepFigures, measure_steps
from benchmarks.syncs import SyncFigures, measure_syncs
from benchmarks.waiting import WaitingFigures, measure_waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured. Runs of few steps are repeated in a pass until there are `least_steps`.

    `session_steps` are spread over the sessions that run at once.
    """

    passes: int = 5
    sizes: Sequence[int] = (10, 100, 1_000, 10_000)
    least_steps: int = 200
    resume_steps: int = 1_000
    sync_steps: int = 1_000
    sessions: Sequence[int] = (1, 64, 512)
    session_steps: int = 5_120
    waiting: Sequence[int] = (64, 512)
    waiting_steps: int = 10
    waiting_seconds: float = 8.0
    followers: int = 500
    follower_steps: int = 200
    audience_steps: int = 40
    listed: int = 100_000
    open_sessions: int = 50
    index_steps: int = 500
    asked_runs: int = 100_000
    audited: int = 10_000
    audited_steps: int = 20
    projected: int = 2_000
    projected_steps: int = 5
    beside_turns: int = 3
    beside_steps: int = 500
    chains: Sequence[int] = (1_000, 5_000, 10_000)
    fan: int = 1_000
    fleets: Sequence[Fleet] = (Fleet(1, 1, 200), Fleet(8, 1, 50), Fleet(2, 16, 20))
    commit_ms: Sequence[int] = (0, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResults:
    """What was found on one store; what could not be measured there is None, or an empty sequence."""

    name: str
    settings: dict[str, str]
    steps: Sequence[StepFigures]
    growth: GrowthFigures | None
    syncs: SyncFigures | None
    resume: ResumeFigures
    sessions: Sequence[SessionFigures]
    waiting: Sequence[WaitingFigures]
    followers: FollowerFigures
    audience: FollowerFigures
    lists: Sequence[ListFigures]
    index: IndexFigures
    answers: Sequence[AnswerFigures]
    what_ifs: Sequence[WhatIfFigures]
    projector: ProjectorFigures
    beside: BesideFigures
    chains: Sequence[ChainFigures]
    fans: Sequence[FanFigures]
    several: Sequence[SeveralFigures]

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

    code: dict[str, str]
    machine: dict[str, str]
    plan: Plan
    importing: Sequence[ImportFigures]
    stores: Sequence[StoreResults]
    absent: dict[str, str]

    def store(self, name: str) -> StoreResults | None:
        """Return what was found on a store, if it was measured."""
        return next((store for store in self.stores if store.name == name), None)


async def measure_store(site: Site, plan: Plan, environment: Mapping[str, str]) -> StoreResults:
    """Measure one store after the plan; processes are started in `environment`, which keeps bytecode."""
    server = site if isinstance(site, PostgresSite) else None
    steps, growth = await measure_steps(site, plan.sizes, plan.least_steps, plan.passes)
    return StoreResults(
        name=site.name,
        settings=site.settings(),
        steps=steps,
        growth=growth,
        # The syncs of a server are not those of this process.
        syncs=None if server else await measure_syncs(site, plan.sync_steps),
        resume=measure_resume(site, plan.resume_steps, plan.passes, environment),
        sessions=await measure_sessions(site, plan.sessions, plan.session_steps, plan.passes),
        waiting=measure_waiting(
            site, plan.waiting, plan.waiting_steps, plan.waiting_seconds, min(3, plan.passes), environment
        ),
        followers=await measure_followers(site, plan.followers, plan.follower_steps, plan.passes, of_one=False),
        audience=await measure_followers(site, plan.followers, plan.audience_steps, plan.passes, of_one=True),
        lists=await measure_lists(site, plan.listed, plan.open_sessions),
        index=await measure_index(site, plan.index_steps, plan.passes),
        answers=await measure_asking(site, plan.asked_runs),
        what_ifs=await measure_what_if(site, plan.audited, plan.audited_steps),
        projector=await measure_projector(site, plan.projected, plan.projected_steps, 3 * plan.passes),
        beside=await measure_beside(site, plan.projected, plan.projected_steps, plan.beside_turns, plan.beside_steps),
        chains=await measure_chains(site, plan.chains, min(3, plan.passes)),
        fans=await measure_fans(site, plan.fan),
        several=measure_several(server, plan.fleets, plan.commit_ms, min(3, plan.passes)) if server else (),
    )
