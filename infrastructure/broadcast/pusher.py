"""Messages over the Pusher protocol: to Laravel Reverb, Soketi, or Pusher itself, by the library of the latter.

The server stores no messages and clients acknowledge none: a client that was away sees the gap in the ids.
"""

import asyncio
import importlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from inspect import isawaitable, iscoroutine
from typing import Any, Final, TypeAlias, cast

from steptrail.domain.agent.ids import checked_session_id
from steptrail.domain.errors import (
    ChannelForbidden,
    ConfigurationError,
    MessageRefused,
    MissingExtra,
    TransportUnavailable,
)
from steptrail.infrastructure.bounded_requests import bound
from steptrail.infrastructure.broadcast.pusher_settings import check_pusher_settings
from steptrail.projections.broadcast.envelope import CHANNEL_PREFIX, BroadcastEnvelope
from steptrail.runtime.kernel.closing import Closing

_MOST_MESSAGES: Final = 10
"""The protocol's own limit."""
_MOST_SAID: Final = 300
"""Characters of what a server says that an error repeats."""
_SIGNED: Final = re.compile(r"\?auth_key=[^\s'\"]*")
"""The part of the address of a request in which the signature is."""
Request: TypeAlias = list[dict[str, str]]

_PREFIXES = ("private-", "private-cache-", "cache-", "")

# The protocol knows no `+` in the name of a channel, and no session has a `;` in its id.
_FLOW, _FLOW_CHANNEL = "flow:", "flow."
_TO_CHANNEL, _FROM_CHANNEL = str.maketrans("+", ";"), str.maketrans(";", "+")


class PusherTransport(Closing):
    """A `BroadcastTransport`. Needs the extra `pusher`; raises `MissingExtra` without it.

    `app_id` is in digits. Without a `host` it is Pusher's own, in its `cluster`. All messages go out under one
    `event_name`, to `<channel_prefix>agent.<session id>` with `+` as `;`: private channels, which clients follow when
    `authenticate` lets them. Other prefixes are `private-cache-`, and without any authorisation `cache-` and none.

    `most_bytes` bounds a whole request, as Reverb does; Pusher itself allows as much for each message. A message that
    is too large alone is sent as a reference that says where it is. `timeout` is in seconds: so long a server may take
    to be there, and so long to say anything; a request that has not ended after three times that is given up.

    The library blocks, so it works in a thread of its own. Close the transport, or use it in `async with`.
    """

    def __init__(
        self,
        *,
        app_id: str,
        key: str,
        secret: str,
        host: str | None = None,
        port: int | None = None,
        ssl: bool = True,
        cluster: str | None = None,
        timeout: float = 5.0,
        event_name: str = "instructor.agent.event",
        channel_prefix: str = "private-",
        most_bytes: int = 10_000,
    ) -> None:
        if channel_prefix not in _PREFIXES:
            raise ConfigurationError(f"{channel_prefix!r} begins no channel here: use one of {_PREFIXES}")
        try:
            pusher: Any = importlib.import_module("pusher")
            errors: Any = importlib.import_module("pusher.errors")
        except ImportError as error:
            raise MissingExtra("PusherTransport", "pusher", "pusher") from error
        where: dict[str, Any] = {"host": host, "port": port, "cluster": cluster, "timeout": timeout}
        check_pusher_settings(key=key, secret=secret, event_name=event_name, most_bytes=most_bytes, **where)
        try:
            # A server that sends us elsewhere has taken nothing, whatever is said there.
            self._client: Any = pusher.Pusher(
                app_id=app_id, key=key, secret=secret, ssl=ssl, **where, backend=_backend, allow_redirects=False
            )
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"these are no credentials of a Pusher app: {error}") from error
        self._bad_request: type[Exception] = errors.PusherBadRequest
        self._bad_status: type[Exception] = errors.PusherBadStatus
        self._no_rights: tuple[type[Exception], ...] = (errors.PusherBadAuth, errors.PusherForbidden)
        self._most_seconds = 3 * timeout
        self.event_name, self.channel_prefix, self.most_bytes = event_name, channel_prefix, most_bytes
        # One thread: a request that was given up on has ended before the next one begins.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="steptrail-pusher")

    @property
    def most_messages(self) -> int:
        """How many messages one `send` takes."""
        return _MOST_MESSAGES

    def channel_of(self, session: str) -> str:
        """Return the channel on which a session's messages are sent; `flow:order-7` names a run of a workflow.

        Raises `ConfigurationError` for what can be no session.
        """
        if str(session).startswith(_FLOW):
            return self._channel(_FLOW_CHANNEL + checked_session_id(session.removeprefix(_FLOW)))
        return self._channel(CHANNEL_PREFIX + checked_session_id(session))

    async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
        """Send them in one request, or in as many as their size needs; see `BroadcastTransport`."""
        for request in self._requests(messages):
            try:
                async with asyncio.timeout(self._most_seconds):
                    answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._trigger, request)
            except self._bad_request as error:
                raise _refusal(400, str(error)) from error
            except self._bad_status as error:
                raise _refusal(_code(str(error).partition(":")[0]), str(error)) from error
            except self._no_rights as error:
                raise _refusal(None, f"{type(error).__name__}: {error}") from error
            except TimeoutError as error:
                raise TransportUnavailable(f"no answer has ended within {self._most_seconds:g} seconds") from error
            except Exception as error:
                # What it raises is its HTTP library's, of which it has several.
                raise TransportUnavailable(f"{type(error).__name__}: {_SIGNED.sub('', str(error))}") from error
            # Soketi says no with status 200, and tells in the body what it means.
            if "error" in answer:
                raise _refusal(_code(answer.get("code")), f"{answer.get('code')}: {answer['error']}")

    def authenticate(self, socket_id: object, channel: object, *, may: Callable[[str], bool]) -> dict[str, str]:
        """Return what a client needs to follow a private channel: answer its request with this as JSON.

        `socket_id` and `channel` are as the client sent them, whatever that is. `may` is asked with the session's id,
        or with `flow:order-7` for a run of a workflow. Raises `ChannelForbidden` unless it says `True`, and for a
        channel that is none of these: answer both with status 403. Raises `ConfigurationError` for an async `may`.
        """
        if not isinstance(channel, str):
            raise ChannelForbidden(f"of type {type(channel).__name__}")
        public = channel.removeprefix(self.channel_prefix)
        prefix = next((each for each in (CHANNEL_PREFIX, _FLOW_CHANNEL) if public.startswith(each)), None)
        if not self.channel_prefix.startswith("private-") or public == channel or prefix is None:
            raise ChannelForbidden(channel)
        try:
            session: str = checked_session_id(public.removeprefix(prefix).translate(_FROM_CHANNEL))
            session = _FLOW + session if prefix == _FLOW_CHANNEL else session
            signed: dict[str, str] = self._client.authenticate(self.channel_of(session), socket_id)
        except (ConfigurationError, TypeError, ValueError):
            raise ChannelForbidden(channel) from None
        if channel != self.channel_of(session) or not _allows(may(session)):
            raise ChannelForbidden(channel)
        return signed

    async def aclose(self) -> None:
        """Let the thread end. Safe to call twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _requests(self, messages: Sequence[BroadcastEnvelope]) -> Iterator[Request]:
        """Yield the requests that carry the messages, each as large as it may be."""
        batch: Request = []
        for message in messages:
            event = self._event(message)
            if not self._fits([event]):
                event = self._event(message.by_reference())
            if not self._fits([event]):
                raise MessageRefused(f"a request may have {self.most_bytes} bytes: too few for any", reason="too large")
            if not self._fits([*batch, event]):
                yield batch
                batch = []
            batch.append(event)
        yield batch

    def _trigger(self, request: Request) -> dict[str, object]:
        answer: object = self._client.trigger_batch(request, already_encoded=True)
        return cast("dict[str, object]", answer) if isinstance(answer, dict) else {}

    def _event(self, message: BroadcastEnvelope) -> dict[str, str]:
        # Data is text here already: what the library encodes it measures by the memory that it takes.
        return {
            "name": self.event_name,
            "channel": self._channel(message.channel),
            "data": message.to_json().decode(),
        }

    def _fits(self, request: Request) -> bool:
        # As the library writes a request: everything beyond ASCII is six bytes or more.
        return len(json.dumps({"batch": request})) <= self.most_bytes

    def _channel(self, channel: str) -> str:
        return self.channel_prefix + channel.translate(_TO_CHANNEL)


def _refusal(code: int | None, said: str) -> MessageRefused | TransportUnavailable:
    """Return what a status means: 400 and 413 are about the messages, any other one about the server or our rights."""
    told = f"the server says: {said[:_MOST_SAID]!r}"
    if code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return MessageRefused(told, reason="too large")
    return MessageRefused(told) if code == HTTPStatus.BAD_REQUEST else TransportUnavailable(told)


def _allows(answer: object) -> bool:
    """Tell whether a client was let in. A coroutine is true, and no answer."""
    if isawaitable(answer):
        if iscoroutine(answer):
            answer.close()
        raise ConfigurationError("`may` is an async function: find out before whether the client may, and then say so")
    return answer is True


def _code(said: object) -> int | None:
    text = str(said)
    return int(text) if text.isascii() and text.isdigit() else None


def _backend(client: Any, **options: Any) -> Any:
    """Return what the library sends requests with, for answers that may be of any size."""
    backend = importlib.import_module("pusher.requests").RequestsBackend(client, **options)
    bound(backend.session)
    return backend
