"""The chain finds the first commit that was changed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.kernel.record import CommitHead, StreamHead
from steptrail.infrastructure.store.core.digest import ChainFault, ChainRow, commit_digest, verify_chain

Rows = list[ChainRow]
Damage = Callable[[Rows], Rows]


def chain(*sizes: int) -> Rows:
    """Return a stream whose commits hold `sizes` events."""
    rows: Rows = []
    previous = b""
    for number, size in enumerate(sizes):
        head = CommitHead(commit_id=f"c{number}", actor="runner", segment=number)
        first = len(rows) + 1
        events = [(first + i, "t", 7 + i, b'{"n":%d}' % (first + i), b'{"said":1}' if i else None) for i in range(size)]
        digest = commit_digest(previous, "agent:a", head, events)
        rows += [ChainRow(*event, event[0], None, None, None, None, None, None, None, None) for event in events]
        rows[-size] = ChainRow(
            *events[0], events[0][0], head.commit_id, "runner", None, number, None, events[0][0], size, digest
        )
        previous = digest
    return rows


def change(version: int, **fields: Any) -> Damage:
    return lambda rows: [row._replace(**fields) if row.version == version else row for row in rows]


def keep(*versions: int) -> Damage:
    return lambda rows: [row for row in rows if row.version in versions]


def test_an_untouched_stream_is_whole() -> None:
    assert verify_chain("agent:a", []) is None
    assert verify_chain("agent:a", chain(1)) is None
    assert verify_chain("agent:a", chain(2, 1, 3)) is None


def test_the_rest_of_a_stream_is_verified_after_a_head() -> None:
    rows = chain(2, 1, 3)
    assert rows[0].digest is not None
    assert verify_chain("agent:a", rows[2:], after=StreamHead(2, rows[0].digest)) is None
    fault = verify_chain("agent:a", rows[2:], after=StreamHead(2, b"x"))
    assert fault == ChainFault(3, "c1", "its content does not match its digest")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (change(4, state=b"{}"), (3, "c1", "content")),
        (change(4, topic="u"), (3, "c1", "content")),
        (change(4, at=9), (3, "c1", "content")),
        (change(4, content=b"{}"), (3, "c1", "content")),
        (change(4, content=None), (3, "c1", "content")),
        (change(3, content=b"{}"), (3, "c1", "content")),
        (change(3, actor="ana"), (3, "c1", "content")),
        (change(3, causation=""), (3, "c1", "content")),
        (change(3, segment=9), (3, "c1", "content")),
        (change(3, key_id="k"), (3, "c1", "content")),
        (change(3, commit_id="c9"), (3, "c9", "content")),
        (change(3, digest=b"x"), (3, "c1", "content")),
        (change(3, first_position=9), (3, "c1", "moved in the log, from position 9 to 3")),
        (change(4, actor="ana"), (3, "c1", "event inside of it has a head")),
        (change(4, digest=b""), (3, "c1", "event inside of it has a head")),
        (change(1, commit_id=None), (1, None, "no head")),
        (change(3, commit_id=None), (1, "c0", "content")),
        (keep(1, 2, 3, 5, 6), (3, "c1", "event 4 is missing")),
        (keep(3, 4, 5, 6), (3, "c1", "event 1 is missing")),
        (keep(1, 2, 3), (3, "c1", "content")),
    ],
)
def test_the_first_bad_commit_is_named(damage: Damage, fault: tuple[int, str | None, str]) -> None:
    found = verify_chain("agent:a", damage(chain(2, 2, 2)))
    assert found is not None
    assert found[:2] == fault[:2]
    assert fault[2] in found.why


def test_a_stream_under_another_name_is_not_whole() -> None:
    assert verify_chain("agent:b", chain(1)) is not None


texts = st.text(alphabet="ab", max_size=3)
commits = st.tuples(
    st.binary(max_size=2),
    texts,
    st.builds(
        CommitHead,
        commit_id=texts,
        actor=texts,
        causation=st.none() | texts,
        segment=st.integers(0, 2),
        key_id=st.none() | texts,
    ),
    st.lists(
        st.tuples(
            st.integers(1, 3), texts, st.integers(0, 2), st.binary(max_size=2), st.none() | st.binary(max_size=2)
        ),
        max_size=3,
    ),
)


@given(commits, commits)
def test_two_commits_have_one_digest_only_if_they_are_equal(
    one: tuple[bytes, str, CommitHead, list[tuple[int, str, int, bytes, bytes | None]]],
    other: tuple[bytes, str, CommitHead, list[tuple[int, str, int, bytes, bytes | None]]],
) -> None:
    assert (commit_digest(*one) == commit_digest(*other)) == (one == other)


def test_the_encoding_stays_as_it_is() -> None:
    head = CommitHead(commit_id="c1", actor="runner", causation=None, segment=2, key_id="k")
    digest = commit_digest(b"\x01" * 32, "agent:a", head, [(1, "step.started.v1", 1700, b'{"number":1}', b"{}")])
    assert digest.hex() == "91b40b8bfaf3907612f16e1653e558d1646104f1d848bb116537f71764a63d6b"
