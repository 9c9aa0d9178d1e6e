"""What a visit sees: the changes of its past, each once, in an order that does not depend on time."""

from steptrail.domain.flow.envelope import Artifact, NodeError
from steptrail.domain.flow.events.nodes import Token
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.views import (
    Delta,
    Ended,
    View,
    changed_apart,
    joined,
    recorded,
    sources,
    succeeded,
    together,
)
from steptrail.domain.messages import Message

ERROR = NodeError(
    node_id="a", kind="tool", message="it is away", attempt=3, visit=1, failure=FailureClass.TOOL, at=0, tier="node"
)


class Story:
    """Visits that have ended, one after another: each takes tokens of earlier ones and changes something."""

    def __init__(self) -> None:
        self.views: dict[int, View] = {0: View()}
        self.ended: dict[int, Ended] = {}

    def visit(self, *after: int, unsets: tuple[str, ...] = (), kept: int | None = None, **sets: str) -> int:
        """End a visit after others, given in the order of their edges, and return its number. It says its number."""
        number = len(self.ended) + 1
        delta = Delta(sets=dict(sets), unsets=unsets, messages=(Message.user(str(number)),), kept=kept)
        inputs: tuple[Token, ...] = tuple(enumerate(after))
        self.ended[number] = Ended(inputs, delta)
        self.views[number] = self.joined(*after).after(number, delta, self.views)
        return number

    def joined(self, *numbers: int) -> View:
        """Return what is seen after these visits."""
        return joined(numbers, self.views, self.ended)

    def changed_apart(self, *numbers: int) -> list[set[str]]:
        """Return what each of these visits has changed apart from the others."""
        return [set(keys) for keys in changed_apart(numbers, self.views, self.ended)]


def said(view: View) -> str:
    return " ".join(message.text for message in view.messages)


def test_what_the_branches_share_comes_once_and_the_rest_by_edge() -> None:
    story = Story()
    root = story.visit(0, a="root")
    slow, fast = story.visit(root, b="slow"), story.visit(root, c="fast")
    for order in ((slow, fast), (fast, slow)):
        view = story.joined(*order)
        assert view.vars == {"a": "root", "b": "slow", "c": "fast"}
        assert said(view) == " ".join(map(str, (root, *order)))
        assert view.past == 0b1111


def test_the_last_edge_wins_and_what_a_branch_did_not_write_wins_nothing() -> None:
    story = Story()
    root = story.visit(0, a="root", b="root")
    one, two = story.visit(root, a="one"), story.visit(root, b="two")
    assert story.joined(one, two).vars == {"a": "one", "b": "two"}
    three = story.visit(root, a="three")
    assert story.joined(three, one).vars["a"] == "one"


def test_a_variable_that_a_branch_removes_is_gone_after_the_join() -> None:
    story = Story()
    root = story.visit(0, a="root", b="root")
    one, two = story.visit(root, c="one"), story.visit(root, unsets=("a",))
    assert story.joined(one, two).vars == {"b": "root", "c": "one"}
    assert story.joined(two, one).vars == {"b": "root", "c": "one"}


def test_a_branch_that_was_itself_joined_comes_in_the_order_that_it_has_seen() -> None:
    story = Story()
    root = story.visit(0)
    first, second, third = story.visit(root), story.visit(root, k="second"), story.visit(root, k="third")
    both = story.visit(third, second)
    view = story.joined(first, both)
    assert view.vars["k"] == story.views[both].vars["k"] == "second"
    assert said(view) == "1 2 4 3 5"


def test_a_visit_that_comes_by_two_edges_counts_once() -> None:
    story = Story()
    root = story.visit(0, a="root")
    assert said(story.joined(root, root)) == "1"
    assert sources(((0, 4), (1, 2), (5, 4))) == (4, 2)


def test_branches_have_changed_what_they_wrote_since_they_parted() -> None:
    story = Story()
    root = story.visit(0, a="root", b="root")
    one = story.visit(root, a="one")
    two = story.visit(story.visit(root, a="two"), c="two", unsets=("b",))
    assert story.changed_apart(one, two) == [{"a"}, {"a", "b", "c"}]


def test_what_one_branch_wrote_before_others_began_in_it_is_no_change_against_these() -> None:
    story = Story()
    root = story.visit(0)
    inner = story.visit(root, k="inner")
    one, two, other = story.visit(inner), story.visit(inner, k="two"), story.visit(root, x="other")
    assert story.changed_apart(one, two, other) == [set(), {"k"}, {"x"}]
    three = story.visit(inner)
    assert story.changed_apart(one, three, other) == [{"k"}, set(), {"x"}]


def test_a_success_sets_its_output_and_removes_the_error_of_an_earlier_visit() -> None:
    failed = View().after(1, recorded("found", ERROR), {})
    assert failed.vars == {"found": None, "found_error": "it is away"}
    assert list(failed.errors) == [ERROR]
    view = failed.after(2, succeeded("found", 7, Delta(sets={"x": 1}, unsets=("y",))), {})
    assert view.vars == {"found": 7, "x": 1}
    assert list(view.errors) == [ERROR]
    assert view.past == 0b111


def test_a_recorded_failure_without_an_output_is_only_an_error() -> None:
    view = View().after(1, recorded(None, ERROR), {})
    assert view.vars == {}
    assert list(view.errors) == [ERROR]


def test_an_output_of_none_is_there_and_stays_when_the_node_removes_its_own_key() -> None:
    view = View().after(1, succeeded("found", None, Delta(unsets=("found",))), {})
    assert dict(view.vars) == {"found": None}


def test_what_a_node_sets_and_removes_is_removed() -> None:
    assert succeeded("out", 1, Delta(sets={"a": 1}, unsets=("a",))) == Delta(sets={"out": 1}, unsets=("a", "out_error"))
    assert succeeded(None, 1, Delta(sets={"a": 1})) == Delta(sets={"a": 1})


def test_changes_one_after_the_other_are_one_change() -> None:
    deltas = [
        Delta(sets={"a": 1, "b": 1}, messages=(Message.user("one"),)),
        Delta(sets={"c": 2}, unsets=("a",), artifacts=(Artifact(id="x"),)),
        Delta(sets={"a": 3}, unsets=("b",), errors=(ERROR,)),
    ]
    view = View()
    for delta in deltas:
        view = view.with_changes(delta)
    whole = View().with_changes(together(deltas))
    assert whole == view
    assert whole.vars == {"c": 2, "a": 3}


def test_what_a_merge_has_dropped_is_not_brought_back_by_a_later_join() -> None:
    story = Story()
    root = story.visit(0)
    one, two, beside = story.visit(root, a="one"), story.visit(root, b="two"), story.visit(root)
    merged = story.visit(one, two, kept=two)
    assert said(story.views[merged]) == "1 3 5"
    for order, expected in (((merged, beside), "1 3 5 4"), ((beside, merged), "1 4 3 5")):
        view = story.joined(*order)
        assert said(view) == expected
        assert view.vars == {"a": "one", "b": "two"}
    assert said(story.joined(beside, merged, one)) == "1 4 3 5"
