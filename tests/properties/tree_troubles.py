"""What comes in between in the life of a tree."""

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Trouble:
    """What comes in between at the commit of this number, counted over all processes, or at a moment outside.

    `stream` is the place of the stream that it is for. `much` says how far back a fork is taken, and how often each
    process moves after a take-over before the other one does.
    """

    number: int
    what: str
    stream: int = 0
    outside: bool = False
    much: int = 0


def troubles(*kinds: str, most: int = 5) -> st.SearchStrategy[list[Trouble]]:
    """Draw what comes in between; a process dies at commits only."""
    said = [kind for kind in kinds if not kind.startswith("crash")]
    much = st.sampled_from([0, 1, 2, 3, 5, 100])
    at_commit = st.builds(Trouble, st.integers(1, 30), st.sampled_from(kinds), st.integers(0, 3), st.just(False), much)
    outside = (
        st.builds(Trouble, st.integers(1, 8), st.sampled_from(said), st.integers(0, 3), st.just(True), much)
        if said
        else at_commit
    )
    return st.lists(at_commit | outside, max_size=most)
