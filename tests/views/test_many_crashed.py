"""A filter by `crashed` finds what the index knows of, as far as one statement has room for it."""

import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.python import asking_runs
from steptrail.projections import RunFilter
from steptrail.runtime.kernel.environment import Environment
from tests.runner.kit import Crash, agent_of, crash_at


async def test_more_crashed_sessions_than_a_statement_takes_are_a_clear_error(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Steptrail(Environment(store=open_store(store_url), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.run(agent_of(["hello"]).build(), "hi", session="s")
    async with Steptrail.open(store_url) as trail:
        crashed = RunFilter(status="crashed")
        assert [row.stream for row in (await trail.views.runs(crashed)).rows] == ["agent:s"]
        monkeypatch.setattr(asking_runs, "_MOST_CRASHED", 0)
        with pytest.raises(ConfigurationError, match="at most 0 sessions, and more than that have crashed: list them"):
            await trail.views.runs(crashed)
        # Of another tenant none has: how many have of all is not its business.
        assert (await trail.views.of("acme").runs(crashed)).rows == []
