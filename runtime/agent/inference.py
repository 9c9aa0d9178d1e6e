"""Makes model calls as effects: each is recorded before it is made, and recorded when it ends, in whatever way."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from steptrail.domain.agent.effects import CallModel, StartInference
from steptrail.domain.agent.events import AgentEvent, InferenceCompleted, InferenceFailed, InferenceStarted
from steptrail.domain.agent.interruptions import model_interrupted
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import PASSING
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelDelta, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import OutputPartial, ReplyDelta
from steptrail.domain.output import OutputMode, OutputSpec
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.deadline import is_out_of_time, within
from steptrail.runtime.agent.request import Requests
from steptrail.runtime.agent.run_log import call_failed
from steptrail.runtime.kernel.asked_model import ShowPiece, checked_reply, reply_of
from steptrail.runtime.kernel.files import stored_file
from steptrail.runtime.kernel.live_updates import OnUpdate, tell
from steptrail.runtime.kernel.running_effects import PATIENCE_SECONDS, Cut, Deaf
from steptrail.runtime.kernel.segment import Segment
from steptrail.runtime.kernel.time_bound import TimeBound

_MODEL = -1
"""The key of the model call among the effects in flight; tool calls have their positions."""


class Inference:
    """Makes the model calls of one session."""

    def __init__(self, segment: Segment[AgentState, AgentEvent], agent: AnyAgent) -> None:
        self._journal, self._agent, self._flight = segment.journal, agent, segment.flight
        self._read_file = partial(stored_file, segment.environment.store)
        self._reach, self._watching = segment.environment.reach, segment.watcher
        self.requests = Requests()

    def not_asked(self, due: StartInference, error: Exception) -> None:
        """Record that the model cannot be asked, because building the request failed. Neither model nor tool failed."""
        model = self._asked_model
        nobody = InferenceStarted(step=due.step, attempt=due.attempt, model=model, request_digest="", message_count=0)
        info = capture(error, default=ErrorType.UNKNOWN, now=self._journal.asked.as_of / 1e6)
        self._journal.conclude(nobody, InferenceFailed(error=info, duration_seconds=0.0))

    @property
    def _asked_model(self) -> str:
        return (self._journal.peek().agent or self._agent.snapshot).model.model

    async def call(self, due: CallModel) -> None:
        """Call the model and record the reply, the failure, or that it was cut off."""
        journal = self._journal
        state = journal.peek()
        recorded = state.agent or self._agent.snapshot
        timeout = within(due.deadline, state.as_of)
        request = replace(self.requests.started(state, recorded), timeout=timeout, read=self._read_file)
        if due.deadline is not None and request.timeout == 0:
            # The deadline came while the events before the call were stored.
            journal.record(model_interrupted(due.deadline))
            return
        self._reach("before-inference")
        # The deadline is enforced here, so that a driver need not know how.
        limit = TimeBound(request.timeout)
        end = partial(self._ended, due=due, began=journal.now(), request=request, limit=limit)
        switched = state.fold.execution.switched if state.fold.execution is not None else 0
        reply = limit.around(partial(self._asked, request, switched))
        self._flight.begin(_MODEL, reply, end, patience=PATIENCE_SECONDS, at_most=request.timeout)
        await self._flight.land()

    async def _asked(self, request: ModelRequest, switched: int) -> ModelReply:
        watcher, model = self._watching(), self._agent.models[switched]
        return await reply_of(model, request, None if watcher is None else self._shown(request, watcher))

    def _shown(self, request: ModelRequest, watcher: OnUpdate) -> ShowPiece:
        """Return what shows the pieces of a reply, and the answer as far as it is written, to a watcher."""
        state = self._journal.peek()
        step = state.fold.step
        place: dict[str, Any] = {
            "session_id": state.agent_id,
            "execution_id": state.execution_id or "",
            "step": state.open_step or 0,
            "attempt": step.inference_attempt if step is not None else 1,
        }
        delta, answer = partial(ReplyDelta, **place), self._answer(request, watcher, partial(OutputPartial, **place))

        def show(piece: ModelDelta | None) -> None:
            if piece is None:
                if answer is not None:
                    answer.read()
                tell(watcher, delta(is_final=True))
                return
            tell(watcher, delta(kind=piece.kind, text=piece.text))
            if answer is not None and piece.kind == "text":
                answer.add(piece.text)

        return show

    def _answer(
        self, request: ModelRequest, watcher: OnUpdate, partial_of: Callable[..., OutputPartial]
    ) -> "PartialOutput | None":
        """Return the reader of an answer that comes as text; None when the call asks for no such answer."""
        if request.output is None or request.output_mode is OutputMode.TOOL:
            return None

        def show(value: JsonValue) -> None:
            tell(watcher, partial_of(partial=value))

        return PartialOutput(request.output, asyncio.get_running_loop().time, show)

    def _ended(
        self,
        outcome: ModelReply | Cut | Deaf | Exception,
        *,
        due: CallModel,
        began: int,
        request: ModelRequest,
        limit: TimeBound,
    ) -> None:
        self._reach("after-inference")
        if isinstance(outcome, PASSING):
            raise outcome  # The store did not give a file of the request. The model did not fail.
        if isinstance(outcome, Deaf):
            outcome = TimeoutError("the model driver takes no notice of its deadline")
        if isinstance(outcome, Cut):
            self._journal.record(model_interrupted(outcome.by))
        elif isinstance(outcome, Exception):
            self._failed(outcome, due, began, request, expired=limit.is_over)
        else:
            try:
                reply = checked_reply(outcome)
            except Exception as error:
                self._failed(error, due, began, request, expired=False)
            else:
                self._journal.record(InferenceCompleted(reply=reply, duration_seconds=self._since(began)))

    def _failed(self, error: Exception, due: CallModel, began: int, request: ModelRequest, *, expired: bool) -> None:
        info = capture(error, default=ErrorType.MODEL, now=self._journal.now() / 1e6)
        is_late = expired or is_out_of_time(info, self._since(began), request.timeout)
        if is_late and due.deadline is not None:
            # The run's own limit cut the call, so the run stops by that limit. It is no failure of the model.
            self._journal.record(model_interrupted(due.deadline))
            return
        call_failed(f"session {self._journal.peek().agent_id}", f"model {self._asked_model}", info, error)
        self._journal.record(InferenceFailed(error=info, duration_seconds=self._since(began)))

    def _since(self, began: int) -> float:
        return (self._journal.now() - began) / 1e6


_LEAST_SECONDS: Final = 0.1
"""The time between two readings, because each reads the whole text again."""


class PartialOutput:
    """One answer that is being written. `now` returns a time in seconds; `show` is called with each new value."""

    def __init__(self, output: OutputSpec, now: Callable[[], float], show: Callable[[JsonValue], None]) -> None:
        self._output, self._now, self._show = output, now, show
        self._pieces, self._next = list[str](), 0.0
        self._shown: JsonValue = None

    def add(self, text: str) -> None:
        """Take the next piece of the reply, and show what can be read by now, at most ten times a second."""
        self._pieces.append(text)
        if self._now() >= self._next:
            self._next = self._now() + _LEAST_SECONDS
            self.read()

    def read(self) -> None:
        """Show what can be read by now, if that is more than before."""
        from pydantic_core import from_json

        text = "".join(self._pieces).strip()
        if text.startswith("```"):
            text = text.partition("\n")[2].removesuffix("```")
        try:
            value = self._output.unwrapped(from_json(text, allow_partial="trailing-strings"))
        except (ValueError, KeyError):
            return
        if value is not None and value != self._shown:
            self._shown = value
            self._show(value)
