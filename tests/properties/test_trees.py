from hypothesis import given, strategies as st
import pytest
from tests.profile import examples
from tests.properties.tree_drawing import AFlow, AnAgent, drawn_trees
from tests.properties.tree_living import Trouble, TreeLife, troubles

pytestmark = pytest.mark.usefixtures("hurried")

@pytest.fixture(scope="module")
def hurried():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("news", "running_effects"):
            patch.setattr(f"steptrail.runtime.kernel.{name}._QUICK_SECONDS", 0.005)
            patch.setattr(f"steptrail.runtime.kernel.{name}._LOOK_AGAIN_SECONDS", 0.02)
        for name in ("agent.children", "flow.children"):
            patch.setattr(f"steptrail.runtime.{name}._LOOK_SECONDS", 0.005)
        patch.setattr("steptrail.runtime.kernel.stream_lease._LOOK_SECONDS", 0.005)
        yield


@examples(20)
@given(drawn_trees(), troubles("crash before", "crash after", "stop", "pause", "unpause", "time"), st.lists(st.integers(0, 5), max_size=6))
async def test_a_tree_comes_to_an_end(tree: AnAgent | AFlow, given: list[Trouble], choices: list[int]) -> None:
    life = TreeLife(tree, given, choices)
    try:
        await life.live()
    finally:
        await life.store.close()
