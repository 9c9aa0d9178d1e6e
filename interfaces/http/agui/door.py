"""The door: every check of a request that comes before it is carried out.

An unknown caller is turned away by the headers alone. A body is never held beyond its limit: it is counted while it
comes, and read as JSON when all of it has come.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError
from pydantic_core import from_json

from steptrail.domain.agent.ids import checked_session_id
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_function, a_whole
from steptrail.interfaces.http.agui.config import AguiCaller
from steptrail.interfaces.http.agui.reading import LONGEST_ID, RequestRefused
from steptrail.runtime.kernel.collector import collector_off

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from starlette.requests import HTTPConnection, Request
    from starlette.types import Message, Receive, Scope

Authenticate: TypeAlias = "Callable[[HTTPConnection], bool | Awaitable[bool]]"
"""Says by the headers alone whether somebody known asks; anything but `True` is a no."""

Authorize: TypeAlias = "Callable[[Request, RunAgentInput], AguiCaller | Awaitable[AguiCaller | None] | None]"
"""Says who a request comes from; anything but an `AguiCaller` is a no to the thread `input.thread_id`."""

_MOST_VALUES = 50_000
"""So many values a request may have: of each that is wrong an error of a thousand bytes is made."""
_UNREAD = frozenset({"state", "forwardedProps", "forwarded_props"})
"""The fields of which nothing is wrong, and which only the functions of a service read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The door of one endpoint. Its methods raise `RequestRefused`."""

    authorize: Authorize
    authenticate: "Authenticate | None"
    max_body_bytes: int
    max_history: int

    def __post_init__(self) -> None:
        a_function(self.authorize, "authorize", "the request", "what it asks for")
        if self.authenticate is not None:
            a_function(self.authenticate, "authenticate", "the connection")
        a_whole(self.max_body_bytes, "max_body_bytes", least=1)
        a_whole(self.max_history, "max_history", least=0)

    async def opened(self, scope: "Scope", receive: "Receive") -> "tuple[Request, RunAgentInput]":
        """Return a request and what it asks for, if it may be read."""
        from starlette.requests import HTTPConnection, Request

        request = Request(scope, self._counted(receive))
        if request.method != "POST":
            raise RequestRefused(405, "post a RunAgentInput")
        if self.authenticate is not None:
            said = self.authenticate(HTTPConnection(scope))
            if (await said if inspect.isawaitable(said) else said) is not True:
                raise RequestRefused(401, "say who you are")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # A page of any origin can send all else with its user's cookies, and no browser asks us before.
            raise RequestRefused(415, "post it as application/json")
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.max_body_bytes:
            raise self._too_much()
        given = _parsed(await request.body())
        try:
            checked_session_id(given.thread_id)
        except ConfigurationError as error:
            raise RequestRefused(422, f"the threadId is the session's id: {error}") from None
        if len(given.run_id) > LONGEST_ID:
            raise RequestRefused(422, f"the runId has at most {LONGEST_ID} characters")
        return request, given

    async def caller(self, request: "Request", given: "RunAgentInput") -> AguiCaller:
        """Return who asks, if that one may."""
        said = self.authorize(request, given)
        caller = await said if inspect.isawaitable(said) else said
        if not isinstance(caller, AguiCaller):
            raise RequestRefused(403, "this thread is not yours")
        return caller

    def _counted(self, receive: "Receive") -> "Receive":
        taken = 0

        async def receiving() -> "Message":
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.max_body_bytes:
                raise self._too_much()
            return message

        return receiving

    def _too_much(self) -> RequestRefused:
        return RequestRefused(413, f"a request may have {self.max_body_bytes:,} bytes")


def _parsed(body: bytes) -> "RunAgentInput":
    from ag_ui.core import RunAgentInput

    try:
        with collector_off():  # a state of many small values took four times as long, and nobody else was served
            told: JsonValue = from_json(body)
        if _has_more_than(_MOST_VALUES, told):
            raise RequestRefused(422, f"a request may have {_MOST_VALUES:,} values beside its state")
        return RunAgentInput.model_validate(told)
    except ValidationError as error:
        # What was sent is not repeated: it may be anything, and errors are logged.
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False)[:3]]
        raise RequestRefused(422, f"this is no RunAgentInput: {'; '.join(wrong)}") from None
    except ValueError as error:
        raise RequestRefused(422, f"this is no RunAgentInput: {error}") from None


def _has_more_than(most: int, told: JsonValue) -> bool:
    fields = told.items() if isinstance(told, dict) else ()
    values: list[JsonValue] = [value for name, value in fields if name not in _UNREAD]
    for value in values:  # those that are in it are put behind the last one, and come later
        if len(values) > most:
            break
        values.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return len(values) > most
