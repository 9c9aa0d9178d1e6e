"""What holds for trees of agents and workflows on the real runtime, whatever dies, is said, or waits in between."""

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from tests.profile import examples
from tests.properties.tree_checks import ending, endings, holds
from tests.properties.tree_drawing import AFlow, AnAgent, drawn_trees
from tests.properties.tree_living import TreeLife
from tests.properties.tree_troubles import Trouble, troubles

CUTS = ("crash before", "crash after", "fork", "answer", "take over", "sweep")

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture(scope="module")
def hurried() -> Iterator[None]:
    """Every look at what others do is taken at once: the times between them show nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("kernel.child", "kernel.stream_lease"):
            patch.setattr(f"steptrail.runtime.{module}._LOOK_SECONDS", 0.005)
        for module in ("news", "running_effects"):
            patch.setattr(f"steptrail.runtime.kernel.{module}._QUICK_SECONDS", 0.005)
            patch.setattr(f"steptrail.runtime.kernel.{module}._LOOK_AGAIN_SECONDS", 0.02)
        yield


@examples(15)
@given(
    drawn_trees(),
    troubles(*CUTS, "stop", "pause", "unpause", "time", "fork"),
    st.lists(st.integers(0, 5), max_size=6),
    st.integers(0, 2),
)
async def test_a_tree_and_its_forks_come_to_an_end_in_which_all_logs_agree(
    tree: AnAgent | AFlow, come: list[Trouble], choices: list[int], retries: int
) -> None:
    async with TreeLife(tree, come, choices, retries) as life:
        await life.live()
        await holds(life)
        await life.erase()
        await holds(life)


@examples(5)
@given(drawn_trees(bound=False), troubles(*CUTS, most=3))
async def test_no_crash_fork_or_take_over_in_a_tree_changes_an_ending_and_a_fork_ends_like_its_source(
    tree: AnAgent | AFlow, come: list[Trouble]
) -> None:
    async with TreeLife(tree) as whole, TreeLife(tree, come) as other:
        for life in (whole, other):
            await life.live()
            await holds(life)
        assert await endings(whole) == await endings(other)
        for fork in other.forks:
            if fork.shared.is_open and fork.source not in other.roots[1:]:
                assert await ending(other, fork.stream) == await ending(other, fork.source)
