"""A worker that cannot go on with what a run waits for tries a few times, and leaves the run until that has moved."""

from typing import Any

import pytest

from steptrail.runtime.kernel import hands
from tests.runner.test_changed_contexts import CONTEXTS, New, Old, boss, clerk, flow
from tests.trail.workers import Place, ended, until

pytestmark = pytest.mark.usefixtures("often", "impatiently")


@pytest.fixture
def impatiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 0.02)
    monkeypatch.setattr(hands, "_LONGEST_REST_SECONDS", 0.1)


@pytest.mark.parametrize("above", ["agent", "flow"])
async def test_a_run_above_a_session_with_an_older_context_is_left_until_that_has_moved(
    place: Place, above: str, pass_by: Any
) -> None:
    old: Any = boss(Old) if above == "agent" else flow(Old)
    new: Any = boss(New) if above == "agent" else flow(New)
    left: list[str] = []
    async with place.opened() as trail:
        await trail.run(old, "Go.", session="s")
        (asked,) = await trail.inbox()
        below = trail.session(asked.stream.removeprefix("agent:"))
        await below.approve(asked.id, by="ana")
        async with trail.work(new, on_left=lambda row, _: left.append(row.stream)):
            await until(lambda: bool(left))
            version = await trail.store.version(f"{above}:s")
            await pass_by()
            assert left == [f"{above}:s"]
            assert await trail.store.version(f"{above}:s") == version
            await below.resume(clerk(New), context=CONTEXTS[New])
            await ended(trail, f"{above}:s")
