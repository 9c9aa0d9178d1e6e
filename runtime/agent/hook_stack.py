"""The hooks of an agent. The hooks of one moment run one after another, and a failure does not skip the others."""

import asyncio
import inspect
from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded, HooksRan
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.hooks.hook import Hook
from steptrail.domain.hooks.matchers import HookMatcher, refuse_other_than_matchers
from steptrail.domain.hooks.state import HookRecorder, HookState
from steptrail.domain.hooks.types import HookType, hook_type_of
from steptrail.runtime.agent.run_log import failed_vote
from steptrail.runtime.kernel.cancellation import is_asked_to_end


class RegisteredHook(Struct, frozen=True):
    """A hook with the moment at which it runs and its priority."""

    type: HookType
    hook: Hook
    priority: int = 0
    matcher: HookMatcher | None = None

    @property
    def name(self) -> str:
        """The name of the hook in the log."""
        return criterion_name(self.hook)


class HookStack:
    """Hooks in the order in which they run: priority downwards, then registration. Immutable."""

    def __init__(self, registered: tuple[RegisteredHook, ...] = ()) -> None:
        # The sort is stable, so equal priorities keep the order of registration.
        self.registered = tuple(sorted(registered, key=lambda entry: -entry.priority))

    def with_hook(
        self, hook_type: HookType, hook: Hook, *, priority: int = 0, matcher: HookMatcher | None = None
    ) -> "HookStack":
        """Return a stack with one more hook. Raises `ConfigurationError` for an object that is no hook."""
        if isinstance(hook, type) or not callable(getattr(hook, "handle", None)):
            msg = f"{hook!r} is not a hook: it needs `handle(state, next)`; wrap a function in `CallableHook`"
            raise ConfigurationError(msg)
        when = hook_type_of(hook_type)
        if not isinstance(cast(object, priority), int):
            raise ConfigurationError(f"the priority of a hook is a whole number, not {type(priority).__name__}")
        if matcher is not None:
            refuse_other_than_matchers(matcher)
        return HookStack((*self.registered, RegisteredHook(when, hook, priority, matcher)))

    async def process(
        self, hook_type: HookType, state: AgentState, *, step: int, position: int | None = None, means: Means = NO_MEANS
    ) -> tuple[AgentEvent, ...]:
        """Run the hooks of one moment; return the events of their changes, and last the event that they ran.

        A hook that raises votes to stop, with its exception in the context of the vote. The action that the hooks run
        before does not happen then, because a broken guard must stop it. The other hooks still run.
        """
        recorder = HookRecorder(hook_type, position, means=means)
        recorder.latest = HookState(state.fold, as_of=state.as_of, recorder=recorder)
        ran: list[str] = []
        for entry in self.registered:
            if entry.type is not hook_type:
                continue
            recorder.hook = entry.name
            if await self._run(entry, recorder):
                ran.append(entry.name)
        forbidden_by = _first_to_forbid(recorder.events)
        recorder.is_closed = True
        mark = HooksRan(
            hook_type=hook_type,
            step=step,
            position=position,
            hooks=tuple(ran),
            forbidden_by=forbidden_by,
            read_settings=recorder.looks.at_settings,
        )
        return (*recorder.events, mark)

    async def _run(self, entry: RegisteredHook, recorder: HookRecorder) -> bool:
        state = recorder.latest
        assert state is not None  # noqa: S101 - set before the first hook
        try:
            if entry.matcher is not None and not entry.matcher.matches(state, recorder.hook_type):
                return False
            answer = entry.hook.handle(state, lambda passed_on: passed_on)
            returned = cast(object, await answer if inspect.isawaitable(answer) else answer)
            if not isinstance(returned, AgentState):
                raise TypeError(f"a hook returns the state, and this one returned {type(returned).__name__}")
        except asyncio.CancelledError:
            if is_asked_to_end():
                raise
            self._failed(entry, recorder, RuntimeError("the hook cancelled itself, and nobody had asked it to"))
        except Exception as error:
            self._failed(entry, recorder, error)
        return True

    def _failed(self, entry: RegisteredHook, recorder: HookRecorder, error: Exception) -> None:
        state = recorder.latest
        session = state.agent_id if state is not None else ""
        vote = failed_vote(session, f"the {recorder.hook_type.value} hook", entry.name, error)
        if recorder.hook_type is HookType.EXECUTION_END or state is None:
            # The run is decided by now. Its vote only says that the hook failed.
            recorder.events.append(EvaluationsRecorded(phase=DecisionPhase.END, votes=(vote,), hook=entry.name))
            return
        changed = state.with_evaluation(vote)
        if recorder.hook_type is HookType.PRE_TOOL_USE:
            # The vote holds the message in a form that can be stored.
            said = f"{type(error).__name__}: {vote.context['message']}".removesuffix(": ")
            changed.with_blocked_tool_call(f"the hook {entry.name} failed: {said}")


def _first_to_forbid(events: Sequence[AgentEvent]) -> str | None:
    for event in events:
        if isinstance(event, EvaluationsRecorded) and any(
            vote.decision is ContinuationDecision.FORBID for vote in event.votes
        ):
            return event.hook
    return None
