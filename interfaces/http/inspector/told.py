"""The head of the page of a run: why it stopped or what it waits for, who decided, and how it goes on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.flow.decide import why_no_retry
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import Cost
from steptrail.domain.shared.run import ExecutionStatus, after_step
from steptrail.interfaces.cli.kinds import kind_shown
from steptrail.interfaces.http.inspector.words import Status, duration, status_word
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.looked_at import looked_at_text
from steptrail.projections.masking import Masking
from steptrail.projections.questions import Question
from steptrail.projections.rendering import asked_for, asked_for_data, dollars, many, owner_text
from steptrail.projections.run_explanation import RunExplanation
from steptrail.projections.scores import RecordedScore

_Data: TypeAlias = Mapping[str, JsonValue]

_WITH_VALUES: Final = frozenset({"error", "lookedAt", "rejectedAnswer", "shadowStops"})
"""The entries that are shown as facts and may hold values that are not to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The head of the page of a run.

    It is made of what was `explained`. `said` is the sentence, `facts` are lines with their labels, and `command` is
    what takes the run further. `can_be_retried` says whether it ended without an answer, and nothing came after it.
    `questions` are those that can be answered, and `expired` those that nobody answered in time, while nobody has gone
    on with the run.
    """

    explained: RunExplanation
    said: str
    status: Status
    can_be_retried: bool
    facts: Sequence[tuple[str, str]]
    command: str
    questions: Sequence[Question]
    expired: Sequence[Question]


def told(stream: str, explained: RunExplanation, masking: Masking, store: str | None) -> Told:
    """Return what is said of a run, as it may be shown. `store` is the address that commands have to name."""
    status, is_newest = explained.status, explained.is_newest
    data = kind_shown(stream).why_data(explained, store)
    projections = PROJECTIONS.of(stream)
    asked = projections.questions(stream, explained.state) if projections is not None and is_newest else ()
    in_time = [each for each in asked if each.is_open_at(explained.state.as_of)]
    expired = [each for each in asked if not each.is_open_at(explained.state.as_of)]
    command = data.get("next")
    return Told(
        explained=explained,
        said=_said(status, data, in_time, expired, masking),
        status=status_word(status, is_crashed=explained.is_crashed, is_damaged=explained.damage is not None),
        can_be_retried=is_newest and _can_be_retried(explained.state),
        facts=(*_facts(explained.state, data, masking), *_scores(explained.scores, masking)),
        command=command if isinstance(command, str) else "",
        questions=in_time,
        expired=expired,
    )


def _can_be_retried(state: object) -> bool:
    if isinstance(state, AgentState):
        return can_be_retried(state)
    return isinstance(state, FlowState) and why_no_retry(state) is None


def asked_text(question: Question) -> str:
    """Return what a person is asked, without any value."""
    match question.kind:
        case "approval":
            return f"to approve {question.tool}"
        case "external":
            return f"to answer the call of {question.tool}"
        case "human":
            return f"to answer {question.node}"
        case "step":
            return f"how to go on at {question.node}, which is held {question.type} it"
        case _:
            return f"what {question.tool or question.node} did: nobody knows how it ended"


def _said(
    status: ExecutionStatus, data: _Data, asked: Sequence[Question], expired: Sequence[Question], masking: Masking
) -> str:
    # A verdict about questions repeats their arguments, which are shown below as they may be.
    if status is ExecutionStatus.WAITING and asked:
        texts = Counter(asked_text(each) for each in asked)
        first = [f"{text} ({count} times)" if count > 1 else text for text, count in list(texts.items())[:3]]
        more = len(asked) - sum(list(texts.values())[:3])
        return f"Waiting for somebody {', and '.join(first)}" + (f", and {more} more" if more else "")
    if status is ExecutionStatus.WAITING and expired:
        late = "; ".join(f"{asked_text(each)}: {each.then}" for each in expired[:3])
        return f"Waiting to be gone on with, as nobody came in time {late}"
    if masking.shows_values:
        verdict = masking.text(str(data["verdict"]))
        # The status stands in front of the sentence already.
        for known in (f"{status.value}, ", "completed (completed): ", "not stopped: "):
            verdict = verdict.removeprefix(known)
        return _capital(verdict.replace("in_progress: ", "at ", 1))
    by, reason = data.get("resolvedBy"), data.get("stopReason")
    return _capital(status.value.replace("_", " ") + (f" ({reason})" if reason else "") + (f", by {by}" if by else ""))


def _facts(state: AgentState | FlowState, data: _Data, masking: Masking) -> Iterator[tuple[str, str]]:
    # The questions, of which there may be thousands, are shown on their own.
    asked = {key: who for key, who in asked_for_data(state).items() if who is not None}
    said: dict[str, JsonValue] = {**{key: value for key, value in data.items() if key in _WITH_VALUES}, **asked}
    shown: _Data = _object(masking.value(said)) if masking.shows_values else {}
    error = _object(shown.get("error"))
    if error:
        # A workflow tells the error of the node, and in it that of the code.
        known = _object(error.get("error")) or error
        where = f", in tool {error['tool']}" if error.get("tool") else ""
        name = known.get("class") or known.get("error_class") or ""
        yield "error", f"{name}: {error.get('message') or ''}{where}".strip(": ")
        for frame in _list(known.get("frames"))[:1]:
            yield "at", str(frame)
        for cause in _list(known.get("causes"))[1:4]:
            yield "caused by", str(cause)
    for name, value in _object(shown.get("lookedAt")).items():
        yield "it saw", looked_at_text(name, value)
    for (label, request), key in zip(asked_for(state), asked, strict=True):
        who = _object(shown.get(key)) or {"by": request.by}
        yield label, f"by {who.get('by')}{': ' + str(who['reason']) if who.get('reason') else ''}"
    for label, key in (("retry of", "retryOf"), ("retried as", "retriedAs"), ("rule", "rule"), ("damage", "damage")):
        if data.get(key):
            yield label, str(data[key])
    if data.get("status") == ExecutionStatus.IN_PROGRESS.value and data.get("owned") is not None:
        yield "owner", owner_text(data["owned"] is True)
    if shown.get("rejectedAnswer"):
        yield "last answer", str(shown["rejectedAnswer"])
    for change in _list(data.get("continuesWith")):
        yield "would go on with", str(change)
    for stop in map(_object, _list(shown.get("shadowStops"))):
        when = after_step(cast("int", stop.get("step", 0)))
        yield "in shadow", f"{stop.get('criterion')} would have stopped it {when}"
    if data.get("notReached"):
        yield "not reached", ", ".join(str(node) for node in _list(data["notReached"])[:20])
    if spent := _object(data.get("spent")):
        yield "spent", _spent(spent, state.cost)


def _scores(scores: Sequence[RecordedScore], masking: Masking) -> Iterator[tuple[str, str]]:
    for each in scores:
        if masking.shows_values:
            yield "score", masking.text(str(each))
        else:  # a label is the words of somebody, too
            value = str(masking.value(each.value)) if isinstance(each.value, str) else each.value
            yield "score", str(replace(each, value=value, comment=None))


def _spent(spent: _Data, cost: Cost | None) -> str:
    counted = [
        many(cast("int", spent[key]), thing)
        for key, thing in (("steps", "step"), ("toolCalls", "tool call"), ("finishedVisits", "visit"))
        if spent.get(key)
    ]
    counted.append(many(cast("int", spent.get("tokens", 0)), "token"))
    if cost is not None:
        counted.append(f"{'' if cost.is_complete else 'at least '}{dollars(float(cost.usd))}")
    active, wall = (float(cast("float", spent.get(key, 0.0))) for key in ("activeSeconds", "wallSeconds"))
    return ", ".join([*counted, f"{duration(active)} active", f"{duration(wall)} in all"])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _object(value: JsonValue) -> _Data:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else ()
