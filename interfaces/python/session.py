"""`Session`: a handle on one session, from any process."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import replace

from steptrail.domain.agent.commands import AnswerCall, Retry, Send, Settle, Start, Verdict
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import SessionId, checked_session_id, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, ConfigurationError, FileUnreadable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.events import ScoreValue
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.scores import GiveScore
from steptrail.infrastructure.tools.external import ExternalTool
from steptrail.interfaces.python.branching import Input, input_of
from steptrail.interfaces.python.fitting_results import refuse_unfit_result
from steptrail.interfaces.python.flow_or_agent import an_agent
from steptrail.interfaces.python.steering import SteeredHandle
from steptrail.runtime.agent.agent import Agent, AnyAgent
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.given import a_context, a_message, for_one_run, refuse_context
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.type_variables import ContextT, OutputT
from steptrail.runtime.agent.verdicts import VERDICTS, verdict_on
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.files import File, stored_file, with_stored_bytes
from steptrail.runtime.kernel.first_answers import answered_once
from steptrail.runtime.kernel.ids import session_or_unnamed
from steptrail.runtime.kernel.json_form import to_json_value
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.run_stream import RunStream

if TYPE_CHECKING:
    from steptrail.projections.explanation import AgentExplanation  # noqa: F401 - it is used as text, as a type argument


class Session(SteeredHandle[AgentState, AgentEvent, "AgentExplanation", RunResult[Any]]):
    """A handle on one session of an agent, from any process. Holds nothing open."""

    def __init__(
        self,
        environment: Environment,
        session_id: SessionId,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._control = SessionControl(environment, session_id, on_commit, on_update)
        super().__init__(environment, self._control.stream, RunResult)
        self.session_id = session_id

    async def send(
        self,
        agent: Agent[OutputT, ContextT],
        text: str | Message,
        *,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        context: ContextT | None = None,
        external_tools: Sequence[ExternalTool] = (),
    ) -> RunResult[OutputT]:
        """Say something new, and run what follows from it; a session that does not exist yet is opened with it.

        A session at rest answers it in a new execution. While an execution is open it joins the conversation at the
        next boundary and keeps the run going; where another process runs it, this returns as soon as the message is
        stored, with the status `in_progress`. Of messages sent at the same moment none is lost: they are stored in the
        order of their commits. With a `key` the same message is said once, however often it is sent. An execution that
        begins with it has the `context`, or else that of the one before, and the `external_tools` for itself alone;
        from there on the session has the entries of `metadata`, such as its `tenant`. Raises `CommandRejected` for a
        key that came with something else, and while an execution with another context is open.
        """
        given = an_agent(agent)
        sent = _sent(given, text, by, key, context, external_tools)
        return await self._control.send(given, sent, metadata or {})

    async def post(
        self,
        agent: Agent[Any, ContextT],
        text: str | Message,
        *,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        context: ContextT | None = None,
        external_tools: Sequence[ExternalTool] = (),
        cause: str | None = None,
    ) -> RunResult[Any]:
        """Say something new as `send` does, and return as soon as it is stored: nothing is run here.

        While an execution is open the message joins it. A session at rest is `pending` with it then, and a process with
        `work` answers. Safe to repeat with a `key`, and refused, like `send`. `cause` is the id of what led to it, such
        as a request; the head of the commit names it as `causation`.
        """
        given = an_agent(agent)
        sent = replace(_sent(given, text, by, key, context, external_tools), cause=cause)
        return RunResult(await self._control.post(given, sent, metadata or {}))

    async def retry(
        self,
        agent: Agent[OutputT, ContextT],
        *,
        by: str = "user",
        reason: str | None = None,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        key: str | None = None,
        context: ContextT | None = None,
    ) -> RunResult[OutputT]:
        """Let a run that failed, met a limit or was stopped go on where it came to no answer.

        That is a new execution without an input: the model is shown the conversation as it stands, with the user's
        message once and the results of the calls that ran, and counts begin at zero. `limits` and `error_policy` hold
        for it in place of the agent's, and a `context` in place of the recorded one. `key` makes it safe to ask
        again: the same key is one retry. A command that asks again for the retried input, or its key, gets the result
        of the newest retry. Raises `SessionNotFound`, `CommandRejected` for a session that has answered or is not over,
        and `SessionBusy` for the second of two at once.
        """
        given = an_agent(agent)
        command = Retry(
            agent=given.snapshot,
            worker=self._env.worker,
            by=by,
            reason=reason,
            key=key,
            limits=limits,
            error_policy=error_policy,
            context=a_context(given, context),
        )
        return await self._control.retry(given, command)

    async def requeue(
        self,
        *,
        by: str = "user",
        reason: str | None = None,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        key: str | None = None,
    ) -> RunResult[Any]:
        """Have a worker retry the last execution; this needs no agent, and runs nothing here.

        It is the new execution of `retry`, begun with the agent as it is recorded. The session is `pending` until a
        process with `work` goes on. `limits` and `error_policy` hold for it in place of the recorded ones; `key` makes
        it safe to ask again. Raises `SessionNotFound`, and `CommandRejected` for a session that has answered or is not
        over.
        """
        retried = partial(Retry, worker=None, by=by, reason=reason, limits=limits, error_policy=error_policy, key=key)
        return RunResult(await self._control.requeue(retried))

    async def resume(
        self,
        agent: Agent[OutputT, ContextT],
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        by: str = "user",
        context: ContextT | None = None,
    ) -> RunResult[OutputT]:
        """Go on with the unfinished execution; see `SessionControl.resume`.

        A session that has finished is returned as it is (`retry` lets a failed one go on, `send` asks for more), and so
        is one that would only wait again.

        Raises `SessionNotFound`, `SessionBusy` while another process runs it, and with `strict` `CommandRejected` when
        the agent has changed. Raises `StoredContextInvalid` for a recorded context that does not fit the agent's type
        any more; `context` replaces it.
        """
        given = an_agent(agent)
        resumed = self._control.resume(
            given,
            take_over=take_over,
            strict=strict,
            limits=limits,
            error_policy=error_policy,
            by=by,
            context=a_context(given, context),
        )
        return RunResult(await resumed, typed=agent.output)

    def stream(
        self,
        agent: Agent[OutputT, ContextT],
        text: str | Message | None = None,
        *,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        context: ContextT | None = None,
        external_tools: Sequence[ExternalTool] = (),
    ) -> RunStream[AgentEvent, RunResult[OutputT]]:
        """Send `text`, or resume when there is none, and show what is done: see `RunStream`, `send` and `resume`."""
        env, session_id = self._env, self.session_id

        async def work(on_commit: OnCommit, on_update: OnUpdate) -> RunResult[OutputT]:
            watched = Session(env, session_id, on_commit, on_update)
            if text is None:
                return await watched.resume(agent, by=by, context=context)
            return await watched.send(
                agent, text, by=by, key=key, metadata=metadata, context=context, external_tools=external_tools
            )

        return RunStream(work)

    async def settle(
        self,
        effect_id: str,
        verdict: Verdict,
        *,
        by: str = "user",
        result: JsonValue = None,
        message: str | None = None,
        reason: str | None = None,
    ) -> RunResult[Any]:
        """Say what became of a parked call, and for what `reason`; the session goes on at the next `resume`.

        `completed` with the `result` the model is to see, `failed` with a `message`, `rerun` to run it again with the
        same effect id, `tell` to let the model know that nobody knows. Raises `SessionNotFound`, `CommandRejected` when
        no call with this effect id waits for a verdict, and `NotStorable` for a result that is not JSON.
        """
        said = to_json_value(result, "result")
        command = Settle(effect_id=effect_id, by=by, verdict=verdict, result=said, message=message, reason=reason)
        telling, said_by = self._control.stream.tell(command), verdict_on(effect_id)
        return RunResult(await answered_once(telling, self._env.store, self.stream_id, VERDICTS, said_by))

    async def answer(
        self,
        effect_id: str,
        result: object = None,
        *,
        by: str,
        error: str | None = None,
        instead: object = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> RunResult[Any]:
        """Give the result of an external call, or the `error` with which it failed, from any process.

        Where nobody has a result, and that is no failure, the model is told what stands `instead`, whatever the type.
        The run goes on at the next `resume`, or by a worker, after the last open question of the reply was answered;
        `state.open_calls` and the inbox list what is asked. `key` makes it safe to answer again. Raises
        `SessionNotFound`, `CommandRejected` for a result that does not fit the type that its tool declares, and when no
        such call is open: it was answered, has expired, or never was. Raises `NotStorable` for a result that is no
        JSON.
        """
        if sum(each is not None for each in (result, error, instead)) > 1:
            raise ConfigurationError("an external call has a `result`, an `error` or something `instead`, one of them")
        said = to_json_value(result if instead is None else instead, "result")
        command = AnswerCall(
            effect_id=effect_id, by=by, at=self._env.clock.utc(), result=said, error=error, reason=reason, key=key
        )
        if error is None and instead is None:
            refuse_unfit_result(await self.state(), command)
        telling, said_by = self._control.stream.tell(command), verdict_on(effect_id)
        return RunResult(await answered_once(telling, self._env.store, self.stream_id, VERDICTS, said_by))

    async def score(
        self,
        name: str,
        value: ScoreValue,
        *,
        by: str,
        comment: str | None = None,
        execution: str | int | None = None,
        step: int | None = None,
        key: str | None = None,
    ) -> RunResult[Any]:
        """Record how good somebody finds an execution, or one `step` of it; see `SteeredHandle.score`."""
        if step is None:
            return await super().score(name, value, by=by, comment=comment, execution=execution, key=key)
        state = await self.state()
        # The newest execution is that of now: another one may begin before the score is stored.
        number = max(state.fold.executions, 1) if execution is None else self._number(execution)
        if number < state.fold.executions:
            state = await self.state(at=state.ended_at(number))
        begun = max(state.step_count, state.open_step or 0)
        if number == state.fold.executions and a_whole(step, "`step`, a number,", least=1) > begun:
            raise CommandRejected("score", self.id, f"execution {number} has no step {step}: there are {begun}")
        command = GiveScore(name=name, value=value, by=by, comment=comment, execution=number, step=step, key=key)
        return RunResult(await self._control.stream.tell(command))

    async def file(self, digest: str) -> File:
        """Return a file that the conversation of the session names, with its bytes. `digest` is that of its part.

        Raises `SessionNotFound`, and `FileUnreadable` for one that it does not name: a digest alone opens nothing.
        """
        named = (part for message in (await self.state()).messages_so_far for part in message.files)
        part = next((part for part in named if part.digest == digest), None)
        if part is None:
            raise FileUnreadable(digest, f"no message of session {self.session_id!r} names it")
        return File.of(part, await stored_file(self._env.store, digest))

    @overload
    async def result(self) -> RunResult[Any]: ...
    @overload
    async def result(self, agent: Agent[OutputT, Any]) -> RunResult[OutputT]: ...
    async def result(self, agent: AnyAgent | None = None) -> RunResult[Any]:
        """Return where the session stands. With the `agent`, `output` is a value of its type, and otherwise JSON."""
        return RunResult(await self.state(), typed=an_agent(agent).output if agent is not None else None)

    async def fork(
        self,
        *,
        at: int | None = None,
        before: str | None = None,
        session: str | None = None,
        name: str | None = None,
        by: str = "user",
        reason: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> "Session":
        """Open another session that goes on from this one's past, the first `at` events or all, and return it.

        With `before`, the id under which front ends show a message, it goes on from where the run that began with that
        message had not begun: from the end of the run before, or with nothing said at all. It has the metadata of this
        session then.

        The past is shared and not copied; whatever happens in one of the two, the other does not notice. Where an
        execution is open the fork is paused, and `resume` goes on with any agent. Requests to stop or pause, keys,
        approvals and waits do not come along. `session` is the new id, chosen when it is not given. Raises
        `SessionNotFound`, and `CommandRejected` when a step is open there, which is anywhere but after a
        `step.completed` or the end of an execution, when the new session exists, and for a message that began no run,
        such as one that was said while a run went on. The error names the nearest place.
        """
        if before is None:
            into = checked_session_id(session_or_unnamed(session))
            await self._forked(stream_of(into), at, Fork(by=by, name=name, reason=reason, metadata=metadata or {}))
            return Session(self._env, into)
        if at is not None:
            raise ConfigurationError("a fork goes on from `at` an event or from `before` a message: give one of them")
        has = dict((await self.state()).metadata) | (metadata or {})
        begun = await input_of(self._env.store, self.session_id, before)
        return await self._before(begun, session_or_unnamed(session), name=name, by=by, reason=reason, metadata=has)

    async def regenerate(
        self,
        agent: Agent[OutputT, Any],
        *,
        session: str | None = None,
        by: str = "user",
        reason: str | None = None,
        key: str | None = None,
    ) -> RunResult[OutputT]:
        """Have the last input answered once more, in a fork from before it, and return the result of that.

        The fork begins with the same message and its files, the context and the external tools of that run; this
        session stays as it is, and tools that ran in it may run again. `session` is the id of the fork, chosen when it
        is not given. With a `key` the same command is carried out once, however often it is given. Raises
        `SessionNotFound`, and `CommandRejected` while an execution is open, when nothing was said, and for a key or a
        session that was used for something else.
        """
        given, store = an_agent(agent), self._env.store
        named = None if key is None else f"regenerate {self.session_id} {key}"
        branch = Session(self._env, checked_session_id(session_or_unnamed(session, named)))
        begun = None if key is None else await self._left_for(branch)
        if begun is None:
            state = await self.state()
            if state.is_open:
                why = f"execution {state.execution_id} is {state.status.value} and not over: wait for it, or `stop` it"
                raise CommandRejected("regenerate", self.session_id, why)
            begun = await input_of(store, self.session_id)
            refuse_context(given, state, None)
            given.snapshot_beside(begun.external_tools)  # says no before anything is stored
            try:
                await self._before(begun, branch.id, by=by, reason=reason, metadata=dict(state.metadata))
            except CommandRejected:
                if key is None or (begun := await self._left_for(branch)) is None:
                    raise
        start = Start(
            input=await with_stored_bytes(store, begun.message),
            agent=given.snapshot_beside(begun.external_tools),
            worker=self._env.worker,
            by=by,
            key=key,
            context=begun.context,
            external_tools=begun.external_tools,
        )
        return await branch._control.run(given, start)

    async def _before(
        self,
        begun: Input,
        into: str,
        *,
        name: str | None = None,
        by: str,
        reason: str | None,
        metadata: dict[str, JsonValue],
    ) -> "Session":
        holder = Session(self._env, SessionId(id_of(begun.stream)))
        return await holder.fork(at=begun.version, session=into, name=name, by=by, reason=reason, metadata=metadata)

    async def _left_for(self, branch: "Session") -> Input | None:
        """Return the input before which `branch` left this session, or one of its past; None before it has."""
        first = (await self._env.store.read(branch.stream_id, limit=1)).records
        if not first:
            return None
        place = self._machine.forked_from(first[0].event)
        return await input_of(self._env.store, self.session_id, at=(place.stream, place.version) if place else ("", 0))


def _sent(
    agent: AnyAgent, text: str | Message, by: str, key: str | None, context: object, tools: Sequence[ExternalTool]
) -> Send:
    said, external = a_message(text), for_one_run(agent, tools)
    return Send(messages=(said,), by=by, key=key, context=a_context(agent, context), external_tools=external)
