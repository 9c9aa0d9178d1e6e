"""`Flow`: a handle on the runs of a workflow in one stream, from any process."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Literal

from steptrail.domain.errors import SessionNotFound
from steptrail.domain.flow.commands import AnswerQuestion, AnswerStep, RetryFlow, SettleNode, Verdict
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.ids import checked_flow_id, flow_stream
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.forks import Fork
from steptrail.infrastructure.flow.means import flow_means
from steptrail.interfaces.python.steering import SteeredHandle
from steptrail.projections.flow_drawing import DrawnFlow
from steptrail.projections.flow_explanation import FlowExplanation
from steptrail.projections.flow_graph import drawn_run
from steptrail.runtime.flow.control import FlowControl, a_flow, brought
from steptrail.runtime.flow.kind import OnFlowCommit
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.values import FilesOfRun, GivenValues
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.files import File
from steptrail.runtime.kernel.ids import session_or_unnamed
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.run_stream import RunStream


class Flow(SteeredHandle[FlowState, FlowEvent, FlowExplanation, FlowResult]):
    """A handle on the runs of a workflow in one stream, from any process. Holds nothing open."""

    def __init__(
        self,
        environment: Environment,
        flow_id: str,
        on_commit: OnFlowCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._control = FlowControl(environment, checked_flow_id(flow_id), flow_means(), on_commit, on_update)
        super().__init__(environment, self._control.stream, FlowResult)

    async def resume(
        self,
        flow: BuiltWorkflow,
        *,
        take_over: bool = False,
        strict: bool = False,
        options: RunOptions | None = None,
        by: str = "user",
    ) -> FlowResult:
        """Go on with the unfinished execution. One that has ended, or would only wait again, is returned as it is.

        The graph and its settings are those that were recorded; only the code comes from `flow`. What differs is
        recorded, or refused with `strict`. `options` replace the recorded ones. Raises `SessionNotFound`,
        `SessionBusy` while another process runs it, and `CommandRejected`.
        """
        return await self._control.resume(a_flow(flow), take_over=take_over, strict=strict, options=options, by=by)

    def stream(
        self, flow: BuiltWorkflow, *, options: RunOptions | None = None, by: str = "user"
    ) -> RunStream[FlowEvent, FlowResult]:
        """Resume, and show what is done: see `RunStream`."""
        env, flow_id = self._env, self.id

        def work(on_commit: OnFlowCommit, on_update: OnUpdate) -> Awaitable[FlowResult]:
            return Flow(env, flow_id, on_commit, on_update).resume(flow, options=options, by=by)

        return RunStream(work)

    async def retry(
        self,
        flow: BuiltWorkflow,
        *,
        strict: bool = False,
        options: RunOptions | None = None,
        reason: str | None = None,
        by: str = "user",
        key: str | None = None,
    ) -> FlowResult:
        """Let a run that failed, met a limit or was stopped go on: what had failed or was cut off is tried again.

        What was finished is not run again. Limits count anew, but for budgets: a run that has used up its own needs
        `options` with a larger one. A `run` that asks again for the retried input, or its key, gets the result of the
        newest retry. Raises `SessionNotFound`, and `CommandRejected` for a run that is open or has completed.
        """
        built, worker = a_flow(flow), self._env.worker
        command = RetryFlow(
            worker=worker, flow=brought(built), options=options, strict=strict, reason=reason, by=by, key=key
        )
        return await self._control.retry(built, command)

    async def requeue(
        self,
        *,
        options: RunOptions | None = None,
        reason: str | None = None,
        by: str = "user",
        key: str | None = None,
    ) -> FlowResult:
        """Have a worker retry a run that failed, met a limit or was stopped; nothing is run here.

        It is what `retry` does, with the recorded workflow. The run is `pending` until a process with `work` goes on.
        Raises `SessionNotFound`, and `CommandRejected` for a run that is open or has completed.
        """
        command = RetryFlow(worker=None, flow=None, options=options, reason=reason, by=by, key=key)
        return FlowResult(await self._control.stream.tell(command))

    async def settle(
        self,
        effect_id: str,
        verdict: Verdict,
        *,
        by: str = "user",
        output: object = None,
        message: str | None = None,
        reason: str | None = None,
    ) -> FlowResult:
        """Say what became of a parked node: it `completed` with an `output`, it `failed`, or it is to `rerun`.

        The `reason` is kept. The run goes on at the next `resume`. Raises `SessionNotFound`, `CommandRejected` when
        nobody waits for such a verdict, and `NotStorable` for an output that is not JSON.
        """
        given = GivenValues()
        said = given.value(output, "output")
        command = SettleNode(
            effect_id=effect_id, by=by, verdict=verdict, output=said, files=given.files, message=message, reason=reason
        )
        return await self._control.settle(command)

    async def answer(
        self,
        to: str,
        *,
        by: str,
        choice: str | None = None,
        approved: bool | None = None,
        data: object = None,
        notes: str | None = None,
        digest: str | None = None,
        key: str | None = None,
    ) -> FlowResult:
        """Answer the question of a human node; `to` is the id of the node, or of the request.

        An answer is taken once, and in time. An approval says whether it is `approved`, a choice which; `data` is the
        input, or what an edit makes of the variables that were shown. With a `digest` the answer is to the question of
        that digest only. The run goes on at the next `resume`, by a worker, or at once where it runs. Raises
        `SessionNotFound`, `CommandRejected` for a question that is not open and for an answer that does not fit it, and
        `NotStorable` for data that is not JSON.
        """
        given = GivenValues()
        said = given.value(data, "data")
        command = AnswerQuestion(
            to=to,
            by=by,
            at=self._env.clock.utc(),
            choice=choice,
            approved=approved,
            data=said,
            files=given.files,
            notes=notes,
            digest=digest,
            key=key,
        )
        return await self._control.answer(command)

    async def step(
        self,
        node: str,
        action: Literal["continue", "skip", "abort"],
        *,
        by: str,
        set: Mapping[str, object] | None = None,  # noqa: A002 - the public name
        unset: Sequence[str] = (),
        targets: Sequence[str] | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> FlowResult:
        """Say how a visit goes on that is held by `pause_before` or `pause_after`.

        Before it begins, variables may be `set` for it and for what comes after it, then `unset`. `targets` name the
        next nodes when a node that chooses is skipped. Raises `SessionNotFound`, and `CommandRejected` when no visit of
        the node is held, or the time to say so is over.
        """
        given = GivenValues()
        sets = given.values(set, "set")
        command = AnswerStep(
            node=node,
            action=action,
            by=by,
            at=self._env.clock.utc(),
            sets=sets,
            files=given.files,
            unsets=a_row(unset, "unset"),
            targets=None if targets is None else a_row(targets, "targets"),
            reason=reason,
            key=key,
        )
        return await self._control.answer_step(command)

    async def fork(
        self,
        *,
        at: int | None = None,
        session: str | None = None,
        by: str = "user",
        reason: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> "Flow":
        """Open another stream that goes on from this one's past, the first `at` events or all, and return it.

        The past is shared and not copied: what a finished visit came to holds in both, and whatever happens in one of
        the two, the other does not notice. Visits that were under way begin anew in the fork, with effect ids and
        streams below of its own. Where an execution is open the fork is paused, and `resume` goes on; where one had
        failed or was stopped, `retry` does. Requests to stop or pause, keys, questions and their answers do not come
        along. `session` is the new id, chosen when it is not given. Raises `SessionNotFound`, and `CommandRejected`
        where an `unsafe` or `keyed` node, an agent or a workflow below was under way, which names an event after which
        it can be forked, or when the new stream exists.
        """
        into = checked_flow_id(session_or_unnamed(session))
        await self._forked(flow_stream(into), at, Fork(by=by, reason=reason, metadata=metadata or {}))
        return Flow(self._env, into)

    async def draw(self) -> DrawnFlow:
        """Return the drawing of the newest execution: what became of each node, and how often each edge was taken.

        Raises `SessionNotFound`, and `RecordTooNew` for a workflow that a newer version recorded.
        """
        records = await self.history()
        try:
            drawn = drawn_run(record.event for record in records)
        except ValueError:
            await self.state()  # which says so of a workflow that a newer version recorded
            raise
        if drawn is None:
            raise SessionNotFound(self.stream_id)
        return drawn

    async def file(self, value: JsonValue | FilePart) -> File:
        """Return a file of the run with its bytes, by what stands for it in a value, by its part, or by its digest.

        Raises `SessionNotFound`, `ConfigurationError` for a value that stands for no file, and `FileUnreadable`, also
        for a file that no event of the run came with: a digest alone opens nothing.
        """
        state = await self.state()
        return await FilesOfRun(self._env.store, state.files, f"run {self.stream_id}").read(value)

    async def result(self) -> FlowResult:
        """Return where the newest execution stands. Raises `SessionNotFound`."""
        return FlowResult(await self.state())
