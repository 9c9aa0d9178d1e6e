"""A model that answers as a recorded one did, without a network: the log of a run is its cassette."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar, get_args

from steptrail.domain.agent.events import InferenceCompleted, InferenceFailed, InferenceInterrupted
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.capture import CapturedFailure
from steptrail.runtime.agent.request import Requests
from steptrail.testing.difference import difference_of_requests
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import RecordedEffect, RecordedInference, RecordedRun

EffectT = TypeVar("EffectT", bound=RecordedEffect[Any])
Match = Literal["strict", "structural"]
"""How a request is held against the recorded one: by its digest, or by its shape."""


_LONGEST_CUT: Final = 600.0
"""Seconds after which nobody is going to cut a call off any more: the run is another one than was recorded."""


class Live(Protocol):
    """Drives a whole session again, and does at each effect what happened to the recorded one from outside."""

    async def reach_end(self, effect: RecordedEffect[Any]) -> None:
        """Give the commands that came meanwhile, and move the clock on. Does not return where the process died."""
        ...


class ReplayModel:
    """A `ModelDriver` that gives the replies of a recorded session, in their order.

    `strict` wants each request to have the digest of the recorded one: the same messages, tools and settings.
    `structural` wants the same roles, parts and tools at the same place, whatever the texts say. What differs raises a
    `ReplayMismatch` with the first difference, and so does a call that was not recorded. A recorded failure is raised
    as it was recorded. The place is found by how many model calls of the session have ended, so a replay may go on in
    another process. `place` is that of the model among those of the agent, where it has fallback models. `live` is for
    `replay`.
    """

    def __init__(
        self, recording: Recording, *, match: Match = "strict", live: Live | None = None, place: int = 0
    ) -> None:
        if match not in get_args(Match):
            raise ConfigurationError(f"`match` of a replay is 'strict' or 'structural', not {match!r}")
        self._match, self._live = match, live
        self._session = recording.session
        self._requests = Requests()
        self._tries = RecordedRun(recording, is_driven=live is not None).inferences
        recorded = recording.started.agent.switched(place)
        self._info, self._output = recorded.model, recorded.output

    def describe(self) -> ModelInfo:
        """Return what was recorded of the model."""
        return self._info

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes, the recorded one first."""
        first = [self._output.mode] if self._output is not None else []
        return (*first, *(mode for mode in OutputMode if mode not in first))

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply to this request, or raise what was recorded in its place."""
        recorded = self._take(request)
        self._compare(recorded, request)
        if self._live is not None:
            await self._live.reach_end(recorded)
        match recorded.end:
            case InferenceCompleted(reply=reply):
                return reply
            case InferenceFailed(error=error):
                raise CapturedFailure(error)
            case InferenceInterrupted(reason="deadline"):
                raise TimeoutError("the recorded run was out of time in this model call")
            case _:
                await until_cut(recorded, f"model call {recorded.index + 1}", is_driven=self._live is not None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Yield the text of the recorded reply in one piece, and then the reply: pieces are not recorded."""
        reply = await self.infer(request)
        if reply.text:
            yield ModelDelta(reply.text)
        yield reply

    async def close(self) -> None:
        """Do nothing: a replay holds no resources."""

    def _take(self, request: ModelRequest) -> RecordedInference:
        tries = self._tries.get(request.call_index)
        if not tries:
            count = len(self._tries)
            raise ReplayMismatch(
                f"the recording of session {self._session!r} has {count} model call{'s' if count != 1 else ''}, and "
                f"call {request.call_index + 1} came: the run went on where the recorded one stopped"
            )
        return next_try(tries, is_driven=self._live is not None)

    def _compare(self, recorded: RecordedInference, request: ModelRequest) -> None:
        if self._match == "strict" and self._requests.digest(request) == recorded.digest:
            return
        found = difference_of_requests(recorded.request, request, shape_only=self._match == "structural")
        if found is not None:
            place = f"model call {recorded.index + 1} (step {recorded.step}) of session {self._session!r}"
            raise ReplayMismatch(f"{place} is not what was recorded. First difference: {found}")


def next_try(tries: list[EffectT], *, is_driven: bool) -> EffectT:
    """Return the try that is played back now.

    Without somebody who lets the process die where it died, only the one that came to an end can be answered.
    """
    return tries.pop(0) if is_driven and len(tries) > 1 else tries[-1]


async def until_cut(effect: RecordedEffect[Any], what: str, *, is_driven: bool) -> NoReturn:
    """Wait to be cut off like the recorded effect. Raises `ReplayMismatch` where nobody would do that."""
    if is_driven:
        await asyncio.sleep(_LONGEST_CUT)
    how = {"stop": "stopped", "cancelled": "cancelled"}.get(effect.was_cut_by or "", "cut off")
    raise ReplayMismatch(
        f"the recorded run was {how} in {what}, and there is no outcome to give: `replay` drives such a run again"
    )
