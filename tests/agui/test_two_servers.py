"""Two servers of one store: what is said to one is said, and what is written is seen at both."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from steptrail import Steptrail
from tests.agui.test_real_client import Place, serving

PAIRS = 5
"""By hand: 100. There is nothing random about what is asserted."""


def post(place: Place, thread: str, *texts: str) -> int:
    said = [{"id": f"{thread}:{text}", "role": "user", "content": text} for text in texts]
    asked = {"threadId": thread, "runId": "r", "messages": said}
    return httpx.post(place.url, json=asked, headers={"Authorization": "ana"}, timeout=60).status_code


@pytest.mark.parametrize("is_known", [True, False])
def test_two_messages_to_two_servers_at_the_same_moment_are_both_said(tmp_path: Path, is_known: bool) -> None:
    threads = [f"t-{number}" for number in range(PAIRS)]
    with (
        serving(tmp_path, name="one") as one,
        serving(tmp_path, name="two") as two,
        ThreadPoolExecutor(2) as pool,
    ):
        for thread in threads:
            before = ["before"] if is_known else []
            if is_known:
                assert post(one, thread, *before) == 200
            both = [pool.submit(post, place, thread, *before, text) for place, text in ((one, "one"), (two, "two"))]
            assert [each.result() for each in both] == [200, 200]
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        rows = trail.runs()
        for thread in threads:
            # Each page was answered to what it showed: in the thread, or in a branch of it.
            streams = [row for row in rows if f"agent:{thread}" in {row.stream, row.fork_of}]
            states = [trail.session(row.session_id).state() for row in streams]
            said = sorted({message.text for state in states for message in state.messages if message.is_user()})
            assert said == [*(["before"] if is_known else []), "one", "two"]


def test_on_postgresql_a_front_end_at_either_server_sees_the_words_while_they_are_written(
    tmp_path: Path, postgres_url: str
) -> None:
    def written(place: Place, *messages: dict[str, str]) -> Iterator[str]:
        asked = {"threadId": "t", "runId": "r", "messages": list(messages)}
        headers = {"Authorization": "ana"}
        with httpx.stream("POST", place.url, json=asked, headers=headers, timeout=60) as answered:
            assert answered.status_code == 200
            for line in answered.iter_lines():
                if line.startswith("data: ") and '"TEXT_MESSAGE_CONTENT"' in line:
                    yield json.loads(line.removeprefix("data: "))["delta"]

    with (
        serving(tmp_path, name="one", store=postgres_url) as one,
        serving(tmp_path, name="two", store=postgres_url) as two,
    ):
        asked = written(one, {"id": "u1", "role": "user", "content": "slow tea"})
        at_one = next(asked)
        joined = written(two)
        at_two = next(joined)  # the model waits
        (tmp_path / "go-on").touch()
        assert at_one + "".join(asked) == at_two + "".join(joined) == "slowly said: slow tea"
