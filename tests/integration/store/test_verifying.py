"""A stream is looked through while others go on with it."""

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.store_moments import with_moments


async def test_given_a_session_that_is_erased_while_it_is_verified_then_nothing_is_wrong_with_it(
    store_url: str,
) -> None:
    eraser = open_store(store_url)
    await eraser.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="a"), Noted()))

    def erase(what: str) -> None:
        if what == "select_chain" and eraser.recorder.select_erasure("agent:a") is None:
            eraser.recorder.erase({"agent:a": 2}, 1, "ana", "test")

    store = with_moments(open_store(store_url), erase)
    assert await store.verify("agent:a") is None
    assert await store.erasure("agent:a") is not None
    assert await store.verify("agent:a") is None
    await store.close()
    await eraser.close()
