"""The part of the conversation that a model is shown: all, or less where it was compacted or an agent shows less."""

from collections.abc import Iterator

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.shortened import without_long_results
from steptrail.domain.messages import Message


def rest_begins_at(fold: SessionFold, agent: AgentSnapshot) -> int:
    """Return the place from which on each message is shown as it is."""
    cut, input_at = fold.shortened, 0 if agent.earlier_tool_traces else fold.input_at
    return max(cut.through, cut.cleared_through, input_at, 1 + max(fold.withdrawn, default=-1))


def shown_before(fold: SessionFold, end: int, agent: AgentSnapshot) -> Iterator[Message]:
    """Yield what is shown of the messages up to the place `end`: the summary first, and none that was withdrawn.

    An agent may show no calls and results from before the input. A reply that calls nothing but an answer stays with
    its result, whatever the form of answers is now. In a history that was given it is one that calls nothing but
    answers of the present form.
    """
    cut = fold.shortened
    yield from cut.head
    hidden_before = 0 if agent.earlier_tool_traces else fold.input_at
    answers, is_answer = agent.name_of_answers(agent.output.mode if agent.output is not None else None), False
    for place in (*cut.kept, *range(cut.through, end)):
        message = fold.messages[place]
        if place < hidden_before:
            calls = message.tool_calls
            if message.is_assistant():
                all_answers = bool(calls) and all(call.name == answers for call in calls)
                is_answer = fold.origins[place].is_answer or all_answers
            if (message.is_tool() or calls) and not is_answer:
                continue
        if place not in fold.withdrawn:
            yield message if place >= cut.cleared_through else without_long_results(message, cut.cleared_above)
