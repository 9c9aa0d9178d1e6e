"""What front ends are shown holds at every version of every life: ids that last, one message each, nothing hidden."""

from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.domain.agent.events import AgentEvent, ApprovalGranted, InferenceCompleted, ToolCallAmended
from steptrail.domain.agent.evolve import evolve, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Part, TextPart, ToolCallPart
from steptrail.ui import UiConfig, UiConversation, UiMessage, reconcile, ui_conversation
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(60)

MARK = "hunter2"
HIDDEN: dict[str, JsonValue] = {"key": MARK, "more": {"deep": [MARK]}}
HIDING = UiConfig(include_args_summary=False, include_continuation_trace=True)
configs = st.builds(
    UiConfig,
    include_tool_args=st.booleans(),
    include_args_summary=st.booleans(),
    max_arg_length=st.integers(1, 8),
    include_tool_results=st.booleans(),
    include_tool_errors=st.booleans(),
    include_continuation_trace=st.booleans(),
)


def with_secrets(event: AgentEvent) -> AgentEvent:
    """Put a secret wherever arguments stand, and into what the model says beside its calls."""
    match event:
        case InferenceCompleted(reply=reply) if reply.tool_calls:
            leaked = TextPart(text='{"key": "hunter2"}')
            parts: tuple[Part, ...] = (leaked, *[_secret(part) for part in reply.parts])
            return structs.replace(event, reply=structs.replace(reply, parts=parts))
        case ToolCallAmended() | ApprovalGranted():
            return structs.replace(event, arguments=HIDDEN)
        case _:
            return event


def _secret(part: Part) -> Part:
    if not isinstance(part, ToolCallPart):
        return part
    has_arguments = part.arguments is not None
    return structs.replace(part, **({"arguments": HIDDEN} if has_arguments else {"raw": f"key = {MARK}"}))


def secretive(life: Life) -> list[AgentState]:
    states = [initial(SESSION)]
    for record in life.committed:
        states.append(evolve(states[-1], Recorded(record.version, record.at, with_secrets(record.event))))
    return states


def lasting(conversation: UiConversation) -> dict[str, UiMessage]:
    return {message.id: message for message in conversation.messages if message.role != "status"}


@some
@given(lives(forks=True), configs)
def test_a_conversation_can_be_made_of_any_state_and_goes_to_json_and_back(life: Life, config: UiConfig) -> None:
    for state in life.states():
        conversation = ui_conversation(state, config)
        assert UiConversation.model_validate_json(conversation.to_json()) == conversation
        assert UiConversation.model_validate(conversation.to_dict()) == conversation
        assert ui_conversation(state, config) == conversation


@some
@given(lives())
def test_a_message_has_one_id_and_keeps_it_with_its_role_and_time(life: Life) -> None:
    before: dict[str, UiMessage] = {}
    for state in life.states():
        conversation = ui_conversation(state)
        after = lasting(conversation)
        assert len({message.id for message in conversation.messages}) == len(conversation.messages)
        for message_id, message in before.items():
            now = after[message_id]
            assert (now.role, now.timestamp) == (message.role, message.timestamp)
            if message.role != "tool":
                assert now == message
        before = after


@some
@given(lives())
def test_what_has_settled_never_changes_again(life: Life) -> None:
    settled = {"completed", "failed", "blocked", "denied", "cancelled"}
    last = lasting(ui_conversation(life.stored))
    for state in life.states():
        for message in lasting(ui_conversation(state)).values():
            if message.metadata is not None and message.metadata.tool_status in settled:
                assert last[message.id] == message


@some
@given(lives(forks=True))
def test_every_call_that_is_asked_for_has_one_tool_message_which_it_names(life: Life) -> None:
    for state in life.states():
        conversation = ui_conversation(state)
        asked = [
            call.message_id
            for message in conversation.messages
            if message.metadata is not None
            for call in message.metadata.tool_calls or ()
        ]
        assert asked == [message.id for message in conversation.messages if message.role == "tool"]


@some
@given(lives())
def test_every_open_question_is_one_that_somebody_is_asked(life: Life) -> None:
    for state in life.states():
        conversation = ui_conversation(state)
        waiting = [
            message.id
            for message in conversation.messages
            if message.metadata is not None and message.metadata.tool_status == "awaiting_approval"
        ]
        assert [approval.id for approval in conversation.approvals] == waiting


@some
@given(lives())
def test_no_argument_leaves_when_arguments_are_not_to_be_shown(life: Life) -> None:
    showing = UiConfig(include_tool_args=True, max_arg_length=1000)
    for state in secretive(life):
        assert MARK.encode() not in ui_conversation(state, HIDING).to_json()
        if any(call.arguments is not None for message in state.messages for call in message.tool_calls):
            assert MARK.encode() in ui_conversation(state, showing).to_json()


@some
@given(lives(), st.data())
def test_what_was_shown_at_any_version_reconciles_to_what_is_stored(life: Life, data: st.DataObject) -> None:
    states = life.states()
    stored = ui_conversation(life.stored)
    shown = ui_conversation(states[data.draw(st.integers(0, len(states) - 1))])
    assert reconcile(shown, stored) == stored
    newer = stored.model_copy(update={"version": stored.version + 1})
    assert reconcile(newer, shown) == newer
