"""A handle through which people steer a run, of an agent or a workflow: they pause and stop it, and approve calls."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import replace

from steptrail.domain.errors import CommandRejected, shown, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Pause, Stop, Unpause
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.kernel.machine import E, S
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.events import ScoreValue
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.scores import GiveScore
from steptrail.interfaces.python.handle import Handle
from steptrail.projections.kinds import Explanation
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.first_answers import APPROVALS, answer_to_approval, answered_once
from steptrail.runtime.kernel.json_form import to_json_value

X_co = TypeVar("X_co", bound=Explanation, covariant=True)
R_co = TypeVar("R_co", covariant=True)


class SteeredHandle(Handle[S, E, X_co], Generic[S, E, X_co, R_co]):
    """A handle on the runs in one stream, which people steer. Each command returns where the run stands after it.

    `standing_at` makes a result of a state.
    """

    def __init__(
        self, environment: Environment, control: StreamControl[S, Any, E, Any], standing_at: Callable[[S], R_co]
    ) -> None:
        super().__init__(environment, control.stream)
        self._steering, self._standing_at = control, standing_at

    async def pause(self, *, reason: str | None = None, by: str = "user", key: str | None = None) -> R_co:
        """Pause at the next safe point, when what runs has ended; what it runs below itself is asked as well.

        If no process runs it, it is paused when this returns. Raises `SessionNotFound`, and `CommandRejected` when no
        execution is open.
        """
        return self._standing_at(await self._steering.request(Pause(by=by, reason=reason, key=key)))

    async def unpause(self, *, reason: str | None = None, by: str = "user", key: str | None = None) -> R_co:
        """Lift a pause, or withdraw the request for one; this needs none of its code, and runs nothing here.

        It is `pending` until a process with `work` goes on; `resume` goes on at once. The pauses of what it runs below
        itself are lifted too. Raises `SessionNotFound`, and `CommandRejected` when it is not paused.
        """
        return self._standing_at(await self._steering.unpause(Unpause(by=by, reason=reason, key=key)))

    async def stop(self, *, reason: str | None = None, by: str = "user", key: str | None = None) -> R_co:
        """Stop for good, with what it runs below itself. If no process runs it, it has ended when this returns.

        Raises `SessionNotFound`, and `CommandRejected` when no execution is open.
        """
        return self._standing_at(await self._steering.request(Stop(by=by, reason=reason, key=key)))

    async def score(
        self,
        name: str,
        value: ScoreValue,
        *,
        by: str,
        comment: str | None = None,
        execution: str | int | None = None,
        key: str | None = None,
    ) -> R_co:
        """Record how good somebody finds an execution: the newest one, or the one of that id or number.

        `value` is a truth value, a number from -1,000,000 to 1,000,000, or a label of at most 100 characters. No run
        notices it, whatever it is doing. The newest score of one name, by the same, of the same counts, and `scores`
        has the others too. `key` makes it safe to say again. Raises `SessionNotFound`, `ConfigurationError` for what no
        score has, and `CommandRejected` for an execution that there is not, or that a fork shares with its source.
        """
        number = None if execution is None else self._number(execution)
        command = GiveScore(name=name, value=value, by=by, comment=comment, execution=number, key=key)
        return self._standing_at(await self._steering.tell(command))

    def _number(self, execution: str | int) -> int:
        """Return the number of the execution of that id or number."""
        if isinstance(execution, str):
            session, _, number = execution.rpartition(":")
            if session != self.id or not (number.isascii() and number.isdigit() and len(number) < 10):
                raise CommandRejected("score", stream_name(self.stream_id), f"it has no execution {shown(execution)}")
            execution = int(number)
        return a_whole(execution, "`execution`, a number,", least=1)

    async def _forked(self, into: str, at: int | None, command: Fork) -> None:
        """Open the stream `into`, which goes on from the first `at` events of this one, or from all of them."""
        if at is not None:
            a_whole(at, "`at`, a version,", least=1)
        await self._steering.fork(into, lambda digest: replace(command, digest=digest), by=command.by, at=at)

    async def approve(
        self,
        approval_id: str,
        *,
        by: str,
        reason: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        digest: str | None = None,
        key: str | None = None,
    ) -> R_co:
        """Say yes to a call of a tool that waits for approval.

        The run goes on at the next `resume`, or by a worker, after the last open question was answered; the inbox and
        the state list what is asked. `arguments` replace the call's as a whole: they have the names of the tool, and
        their values are validated when it runs. With a `digest` the yes is to the arguments of that digest and no
        others. `key` makes it safe to say again. Raises `SessionNotFound`, `CommandRejected` when the arguments have
        other names, or when this approval is not open: it has been answered, has expired, or never was, and
        `NotStorable` for arguments that are not JSON.
        """
        given = None if arguments is None else cast("dict[str, JsonValue]", to_json_value(arguments, "arguments"))
        now = self._env.clock.utc()
        command = Approve(
            approval_id=approval_id, by=by, at=now, reason=reason, arguments=given, digest=digest, key=key
        )
        return await self._answered(command)

    async def deny(self, approval_id: str, *, by: str, reason: str | None = None, key: str | None = None) -> R_co:
        """Say no to a call of a tool that waits for approval: it does not run.

        The model is told by whom and why; the node of a workflow fails, with the class `rejected`. Raises like
        `approve`.
        """
        command = Deny(approval_id=approval_id, by=by, at=self._env.clock.utc(), reason=reason, key=key)
        return await self._answered(command)

    async def _answered(self, command: Approve | Deny) -> R_co:
        answering, said = self._steering.tell(command), answer_to_approval(command)
        return self._standing_at(await answered_once(answering, self._env.store, self.stream_id, APPROVALS, said))
