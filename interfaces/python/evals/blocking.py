"""The blocking twin of a comparison."""

from collections.abc import Iterable
from typing import Any

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_kind_of, a_row
from steptrail.interfaces.python.evals.comparing import compare
from steptrail.interfaces.python.evals.judging import ComparisonJudges
from steptrail.interfaces.python.evals.report import ComparisonReport
from steptrail.interfaces.python.sync import SyncSession
from steptrail.interfaces.python.twins import asynchronous_of
from steptrail.runtime.agent.agent import Agent


def compare_blocking(
    agent: Agent[Any, Any], sessions: Iterable[SyncSession], judges: ComparisonJudges, **settings: Any
) -> ComparisonReport:
    """Do what `compare` does, with sessions of `Steptrail.open_sync` and the same settings, in the loop of these."""
    handles = [a_kind_of(SyncSession, each, "a session to compare") for each in a_row(sessions, "sessions")]
    if not handles:
        raise ConfigurationError("a comparison that blocks needs a session, whose loop it runs in")
    portal, _ = asynchronous_of(handles[0])
    return portal.call(compare(agent, [asynchronous_of(each)[1] for each in handles], judges, **settings))
