"""The kind `human`: what a person is asked, which answers are taken, and what an answer, or none in time, comes to."""

from typing import NamedTuple

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.kinds.port import NodeFault, Schemas
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.kinds.templates import files_shown, rendered
from steptrail.domain.flow.kinds.values import text_of
from steptrail.domain.flow.nodes import HumanNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue

_YES = frozenset({"approve", "yes"})


class PersonsQuestion(NamedTuple):
    """The question to a person: its text, the variables that are shown, and the digest of all that it says."""

    prompt: str
    data: dict[str, JsonValue]
    digest: str


class PersonsAnswer(NamedTuple):
    """The answer of a person, or the one that is taken when nobody answers in time; then `by` is None."""

    choice: str | None = None
    approved: bool | None = None
    data: JsonValue = None
    notes: str | None = None
    by: str | None = None
    meta: dict[str, JsonValue] = {}


def asked(node: HumanNode, seen: Seen) -> PersonsQuestion:
    """Return the question. A variable that is not set is not shown. Raises `NodeFault` as templates do."""
    prompt = rendered(node.prompt, seen)
    data = {name: seen.vars[name] for name in node.show if name in seen.vars}
    files = (part.digest for part in files_shown(node.prompt, seen))  # the words of two may be the same
    said: list[JsonValue] = [node.type, prompt, data, [*node.options], node.schema, *files]
    return PersonsQuestion(prompt, data, digest_of(said))


def wrong_in(answer: PersonsAnswer, node: HumanNode, schemas: Schemas) -> str | None:
    """Return what is wrong with an answer; None for one that can be taken."""
    if node.type == "approval" and answer.approved is None:
        return "an approval says whether it is approved"
    if node.type == "choice" and answer.choice is None:
        return f"a choice names one of {', '.join(node.options)}"
    if answer.choice is not None and node.options and answer.choice not in node.options:
        return f"{answer.choice!r} is none of {', '.join(node.options)}"
    if node.type == "edit" and answer.data is not None:
        if not isinstance(answer.data, dict):
            return "an edit holds the variables that it changes, by name"
        if others := sorted(answer.data.keys() - set(node.show)):
            return f"an edit changes what is shown, and {others[0]!r} is not"
    if node.schema is not None and answer.approved is not False:
        return "; ".join(schemas.problems(node.schema, answer.data)) or None
    return None


def answered(node: HumanNode, answer: PersonsAnswer, at: int) -> Evaluated:
    """Return what an answer comes to; `at` is its instant in microseconds of UTC.

    Raises `NodeFault` of the class `rejected`, if the node says so.
    """
    if answer.approved is False and node.on_reject == "fail":
        who = "the default answer" if answer.by is None else answer.by
        why = f"rejected by {who}" + (f": {answer.notes}" if answer.notes else "")
        raise NodeFault(FailureClass.REJECTED, why, {"by": answer.by, "notes": answer.notes})
    return _result(node, answer, at, is_approved=answer.approved is not False)


def expired(node: HumanNode, at: int, schemas: Schemas) -> Evaluated:
    """Return what it comes to that nobody answered in time.

    Raises `NodeFault`: `expired` if the node says so, `config` for a default that is no answer, `rejected` for one that
    rejects.
    """
    match node.on_timeout:
        case "fail":
            waited = f" within {text_of(node.expires)} s" if node.expires is not None else ""
            raise NodeFault(FailureClass.EXPIRED, f"timed out: nobody answered{waited}")
        case "skip":
            return _result(node, PersonsAnswer(meta={"timeout": True, "skipped": True}), at, is_approved=False)
        case "default":
            answer = default_answer(node)
            if (wrong := wrong_in(answer, node, schemas)) is not None:
                raise NodeFault(FailureClass.CONFIG, f"the default is no answer: {wrong}")
            if node.type == "approval":
                return answered(node, answer, at)
            return _result(node, answer, at, is_approved=False)


def default_answer(node: HumanNode) -> PersonsAnswer:
    """Return the answer that is taken when nobody answers in time."""
    meta: dict[str, JsonValue] = {"timeout": True, "default": True}
    text = node.default if isinstance(node.default, str) else None
    match node.type:
        case "approval":
            return PersonsAnswer(choice=text, approved=text is not None and text.lower() in _YES, meta=meta)
        case "choice":
            return PersonsAnswer(choice=text, meta=meta)
        case _:
            return PersonsAnswer(data=node.default, meta=meta)


def _result(node: HumanNode, answer: PersonsAnswer, at: int, *, is_approved: bool) -> Evaluated:
    is_edit = node.type == "edit" and answer.approved is not False
    changed = answer.data if is_edit and isinstance(answer.data, dict) else {}
    output: dict[str, JsonValue] = {
        "choice": answer.choice,
        "approved": answer.approved,
        "data": answer.data,
        "notes": answer.notes,
        "by": answer.by,
        "at": to_datetime(at).isoformat(),
        "meta": answer.meta,
    }
    return Evaluated(output=output, sets=changed | {f"{node.output or node.id}_approved": is_approved})
