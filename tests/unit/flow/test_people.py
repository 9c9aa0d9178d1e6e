"""Questions to people: what is shown, which answers are taken, and what each answer, or none, comes to."""

from typing import Any

import pytest

from steptrail.domain.flow.kinds.people import PersonsAnswer, answered, asked, expired, wrong_in
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.nodes import HumanNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.means import Table

SEEN = Seen(vars={"doc": {"title": "T"}, "draft": "text", "secret": "s"})
SCHEMAS = Table({})


def human(type: Any = "approval", **settings: Any) -> HumanNode:  # noqa: A002
    return HumanNode(id="h", type=type, output="review", **settings)


def output_of(result: Evaluated) -> dict[str, JsonValue]:
    assert isinstance(result.output, dict)
    return result.output


def test_a_person_sees_the_text_and_only_what_is_shown() -> None:
    node = human(prompt="Publish {{ vars.doc.title }}?", show=("draft", "gone"))
    question = asked(node, SEEN)
    assert (question.prompt, question.data) == ("Publish T?", {"draft": "text"})
    assert asked(human(), SEEN).data == {}


def test_the_digest_is_that_of_all_that_is_asked() -> None:
    node = human(prompt="p", show=("draft",))
    assert asked(node, SEEN).digest == asked(node, SEEN).digest
    others = [
        asked(human(prompt="q", show=("draft",)), SEEN),
        asked(human(prompt="p"), SEEN),
        asked(node, Seen(vars={"draft": "other"})),
        asked(human("review", prompt="p", show=("draft",)), SEEN),
    ]
    assert len({each.digest for each in others} | {asked(node, SEEN).digest}) == 5


def test_a_question_about_something_missing_is_a_fault() -> None:
    with pytest.raises(NodeFault, match="nothing at 'gone'"):
        asked(human(prompt="{{ gone }}"), SEEN)


CHOICE = human("choice", options=("a", "b"))
EDIT = human("edit", show=("draft",))
INPUT = human("input", schema={"type": "int"})


@pytest.mark.parametrize(
    ("node", "answer"),
    [
        (human(), PersonsAnswer(approved=True)),
        (human(), PersonsAnswer(approved=False, notes="no")),
        (CHOICE, PersonsAnswer(choice="b")),
        (EDIT, PersonsAnswer(data={"draft": "new"})),
        (EDIT, PersonsAnswer()),
        (INPUT, PersonsAnswer(data=3)),
        (INPUT, PersonsAnswer(approved=False)),
        (human("input"), PersonsAnswer()),
        (human("review"), PersonsAnswer(notes="fine")),
    ],
)
def test_an_answer_is_taken(node: HumanNode, answer: PersonsAnswer) -> None:
    assert wrong_in(answer, node, SCHEMAS) is None


@pytest.mark.parametrize(
    ("node", "answer", "said"),
    [
        (human(), PersonsAnswer(), "an approval says whether"),
        (CHOICE, PersonsAnswer(), "a choice names one of a, b"),
        (CHOICE, PersonsAnswer(choice="c"), "'c' is none of a, b"),
        (EDIT, PersonsAnswer(data={"secret": "x"}), "'secret' is not"),
        (EDIT, PersonsAnswer(data=["draft"]), "holds the variables"),
        (INPUT, PersonsAnswer(data="three"), "it is no int"),
        (INPUT, PersonsAnswer(), "it is no int"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(node: HumanNode, answer: PersonsAnswer, said: str) -> None:
    assert said in (wrong_in(answer, node, SCHEMAS) or "")


def test_an_answer_is_a_map_of_all_that_was_said() -> None:
    result = answered(human(), PersonsAnswer(approved=True, notes="good", by="ana"), at=1_000_000)
    assert output_of(result) == {
        "choice": None,
        "approved": True,
        "data": None,
        "notes": "good",
        "by": "ana",
        "at": "1970-01-01T00:00:01+00:00",
        "meta": {},
    }
    assert result.sets == {"review_approved": True}


def test_a_rejection_is_an_answer_unless_the_node_says_otherwise() -> None:
    no = PersonsAnswer(approved=False, notes="too long", by="ana")
    assert answered(human(), no, 0).sets == {"review_approved": False}
    with pytest.raises(NodeFault, match="rejected by ana: too long") as caught:
        answered(human(on_reject="fail"), no, 0)
    assert caught.value.failure is FailureClass.REJECTED


def test_an_edit_changes_the_variables_and_a_rejected_one_does_not() -> None:
    data: JsonValue = {"draft": "new"}
    assert answered(EDIT, PersonsAnswer(data=data), 0).sets == {"draft": "new", "review_approved": True}
    assert answered(EDIT, PersonsAnswer(data=data, approved=False), 0).sets == {"review_approved": False}
    assert answered(human("input"), PersonsAnswer(data=data), 0).sets == {"review_approved": True}


def late(node_type: Any = "approval", expires: float = 60, **settings: Any) -> Evaluated:
    return expired(human(node_type, expires=expires, **settings), 0, SCHEMAS)


@pytest.mark.parametrize("seconds", [60, 0.5, 30 * 86_400, 1_234_567.25])
def test_nobody_in_time_is_a_failure_that_says_so(seconds: float) -> None:
    with pytest.raises(NodeFault, match=f"timed out: nobody answered within {seconds} s$") as caught:
        late(expires=seconds)
    assert caught.value.failure is FailureClass.EXPIRED


@pytest.mark.parametrize(
    ("default", "approved"), [("approve", True), ("Yes", True), ("ok", False), ("no", False), (True, False)]
)
def test_only_approve_and_yes_approve_by_default(default: JsonValue, approved: bool) -> None:
    result = late(on_timeout="default", default=default)
    assert result.sets == {"review_approved": approved}
    assert output_of(result)["meta"] == {"timeout": True, "default": True}


def test_a_default_that_rejects_fails_where_a_rejection_does() -> None:
    with pytest.raises(NodeFault, match="rejected by the default answer"):
        late(on_timeout="default", default="no", on_reject="fail")


def test_a_default_choice_or_edit_is_taken_and_approves_nothing() -> None:
    choice = late("choice", options=("a", "b"), on_timeout="default", default="b")
    assert (output_of(choice)["choice"], choice.sets) == ("b", {"review_approved": False})
    edit = late("edit", show=("draft",), on_timeout="default", default={"draft": "d"})
    assert edit.sets == {"draft": "d", "review_approved": False}


def test_a_default_that_is_no_answer_is_a_fault() -> None:
    with pytest.raises(NodeFault, match="the default is no answer") as caught:
        late("edit", on_timeout="default", default={"secret": "x"})
    assert caught.value.failure is FailureClass.CONFIG


def test_a_skipped_question_has_an_empty_answer_and_approves_nothing() -> None:
    result = late(on_timeout="skip")
    assert (output_of(result)["approved"], output_of(result)["meta"]) == (None, {"timeout": True, "skipped": True})
    assert result.sets == {"review_approved": False}
