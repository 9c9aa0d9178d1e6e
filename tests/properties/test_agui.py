"""Whoever looks at any life of a session through AG-UI, from anywhere, sees legal runs and ends with what is stored."""

from random import Random

from ag_ui.core import Message
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.agui import AguiConfig, AguiFold
from steptrail.domain.agent.events import AgentEvent, InferenceCompleted, InferenceStarted
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import ReplyDelta, UpdatesLost
from steptrail.domain.messages import ReasoningPart, TextPart
from steptrail.interfaces.http.agui.branches import overlap
from steptrail.interfaces.http.agui.conversation import said_origins, wire_messages
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives
from tests.unit.agui.client import Client

some = examples(150)
configs = st.builds(
    AguiConfig,
    include_tool_args=st.booleans(),
    hidden_arguments=st.frozensets(st.sampled_from("ab")),
    include_reasoning=st.booleans(),
    include_errors=st.booleans(),
)


def shown(state: AgentState, config: AguiConfig) -> list[dict[str, object]]:
    return Client(messages=wire_messages(state, config)[0]).said


def worded(life: Life, state: AgentState) -> list[Recorded[AgentEvent]]:
    """Return the events of a life behind `state`, with replies that say and think something of their own."""
    found: list[Recorded[AgentEvent]] = []
    for record in life.committed[state.version :]:
        event = record.event
        if isinstance(event, InferenceCompleted):
            number = record.version
            says = [TextPart(text=f"reply {number} of some words")] if number % 3 else []
            thinks = [ReasoningPart(text=f"thought {number}")] if number % 2 else []
            calls = [part for part in event.reply.parts if part.kind == "tool_call"]
            event = structs.replace(event, reply=structs.replace(event.reply, parts=(*thinks, *says, *calls)))
        found.append(structs.replace(record, event=event))
    return found


def deltas(chance: Random, state: AgentState, coming: AgentEvent | None) -> list[ReplyDelta | UpdatesLost]:
    """Return what may be seen of a reply: pieces of it, of something else, or with holes."""
    step = state.fold.step
    if step is None:
        return []
    is_true = isinstance(coming, InferenceCompleted) and chance.random() < 0.8
    text = coming.reply.text if is_true and isinstance(coming, InferenceCompleted) else "this is not what is stored"
    one = ReplyDelta(
        session_id=SESSION, execution_id=state.execution_id or "", step=step.number, attempt=step.inference_attempt
    )
    seen: list[ReplyDelta | UpdatesLost] = []
    if chance.random() < 0.5:
        seen.append(structs.replace(one, kind="reasoning", text="thought"))
    words = [f"{word} " for word in text.split(" ")]
    for word in words[: chance.randrange(len(words))]:
        seen.append(structs.replace(one, text=word))
        if chance.random() < 0.2:
            seen.append(UpdatesLost(session_id=SESSION, count=1))
        if chance.random() < 0.2:
            seen.append(structs.replace(one, step=step.number + 1, text="of another step"))
    return [*seen, structs.replace(one, is_final=True)] if chance.random() < 0.5 else seen


def without_ids(said: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in each.items() if key != "id"} for each in said]


@some
@given(lives(), configs, st.integers(0, 2**32))
def test_any_pieces_of_a_life_are_legal_runs_that_leave_a_client_with_what_is_stored(
    life: Life, config: AguiConfig, seed: int
) -> None:
    state = evolve_all(initial(SESSION), life.committed[:2])
    records = worded(life, state)
    chance = Random(seed)  # noqa: S311 - not a secret
    cuts = sorted({chance.randint(0, len(records)) for _ in range(chance.randrange(5))} | {len(records)})
    client, begin, joins = Client(messages=[*mine(state)]), 0, False
    for cut in cuts:
        if joins and chance.random() < 0.5:
            client = Client()
        fold = AguiFold(state, run_id=f"run-{begin}", config=config, client=client.messages)
        client.take_all(fold.begin(joins=joins))
        # What is said in the middle of a step is shown at once to who said it, and is stored behind the step.
        is_early = bool(state.fold.step and state.fold.step.queued)
        for place in range(begin, cut):
            client.take_all(fold.apply(records[place]))
            if isinstance(records[place].event, InferenceStarted):
                coming = records[place + 1].event if place + 1 < len(records) else None
                for update in deltas(chance, fold.state, coming):
                    client.take_all(fold.show(update))
        client.take_all(fold.finish())
        state = evolve_all(state, records[begin:cut])
        assert fold.state == state
        seen, stored = without_ids(client.said), without_ids(shown(state, config))
        assert seen == stored or (is_early and sorted(map(str, seen)) == sorted(map(str, stored)))
        assert len({message.id for message in client.messages}) == len(client.messages)
        assert client.run_is_over()
        compare_what_people_said(state, client.messages)
        begin, joins = cut, True


def compare_what_people_said(state: AgentState, messages: list[Message]) -> None:
    """What a client was shown is the conversation, and what it shows before a message leaves that one out."""
    found = overlap(state, messages)
    assert (found.cut, found.unsaid) == (None, ())
    hooks = {shown_as for shown_as, origin in said_origins(state).items() if origin.hook is not None}
    ours = [message.id for message in wire_messages(state, AguiConfig())[0] if message.role == "user"]
    said = [place for place, message in enumerate(messages) if message.role == "user"]
    for kept, place in enumerate(said):
        short = overlap(state, messages[:place])
        missed = [each for each in ours[kept:] if each not in hooks]
        assert (short.kept, short.unsaid, short.cut) == (kept, (), next(iter(missed), None))


def mine(state: AgentState) -> list[Message]:
    """Return the conversation as the client has it that has sent it, under ids of its own."""
    found = wire_messages(state, AguiConfig())[0]
    return [message.model_copy(update={"id": f"mine-{place}"}) for place, message in enumerate(found)]
