"""Makes the question of a what-if: which settings stand in the place of the recorded ones."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import structs

from steptrail.domain.agent.conclude import Judges
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import LIMITS, Limits
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_kind_of, a_mapping
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import PriceTable
from steptrail.projections.other_settings import WhatIfQuestion
from steptrail.runtime.agent.agent import AnyAgent, criteria_for
from steptrail.runtime.agent.given import an_agent
from steptrail.runtime.agent.request import Requests

_DECIDING = (*LIMITS, "prices", "unpriced", "shadow")
"""The settings that say when a run ends. The others change what a model sees, and when."""


def question_of(
    limits: Limits | Mapping[str, object] | None,
    error_policy: ErrorPolicy | None,
    like: AnyAgent | None,
    *,
    trusts_tools: bool,
) -> WhatIfQuestion:
    """Return the question; see `Auditor.what_if`. Raises `ConfigurationError` for settings that cannot be meant."""
    if not limits and error_policy is None and like is None:
        raise ConfigurationError("a what-if needs another setting: `limits`, `error_policy`, or an agent as `like`")
    if error_policy is not None:
        a_kind_of(ErrorPolicy, error_policy, "the `error_policy` of a what-if")
    own = None if like is None else an_agent(like)
    given, usual = _settings(limits), _settings(None if own is None else own.limits)
    policy = error_policy or (None if own is None else own.error_policy)

    def changed(recorded: AgentSnapshot) -> AgentSnapshot:
        tried = (recorded if own is None else own).limits.shadow
        shadow = tuple(name for name in tried if name not in given)
        other = structs.replace(recorded.limits, **{**usual, "shadow": shadow, **given})
        return structs.replace(recorded, limits=other, error_policy=policy or recorded.error_policy)

    return WhatIfQuestion(changed, partial(_judges, own), brings_criteria=own is not None, trusts_tools=trusts_tools)


def _settings(limits: Limits | Mapping[str, object] | None) -> dict[str, object]:
    """Return those of the settings that say when a run ends."""
    if isinstance(limits, Limits):
        return {name: getattr(limits, name) for name in _DECIDING}
    given = {} if limits is None else a_mapping(limits, "the `limits` of a what-if")
    if unknown := sorted(str(name) for name in given if name not in _DECIDING):
        known = ", ".join(_DECIDING)
        raise ConfigurationError(f"`limits` of a what-if: {unknown[0]!r} ends no run, those that do are {known}")
    # Whether a recorded run has the prices that a limit needs is not known yet.
    structs.replace(Limits(prices=PriceTable.of({}, version="none")), **given)
    return given


def _judges(agent: AnyAgent | None, state: AgentState, own: Sequence[Criterion] | None) -> Judges:
    criteria = tuple(own) if own is not None else agent.criteria if agent is not None else ()
    asked: list[tuple[AgentSnapshot, ContinuationCriteria]] = []

    def made(recorded: AgentSnapshot) -> ContinuationCriteria:
        if not asked or asked[0][0] is not recorded:
            asked[:] = [(recorded, criteria_for(recorded, criteria))]
        return asked[0][1]

    declared = agent.context if agent is not None else None
    return Judges(
        criteria=made,
        are_ours=own is not None or not criteria,
        failed=ContinuationEvaluation.from_exception,
        requests=Requests(),
        draw=lambda: 0.0,
        means=NO_MEANS if declared is None else Means(partial(declared.read, state.context)),
    )
