"""A server of its own for the inspector: on this machine alone, or behind a token."""

import secrets
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from steptrail.domain.errors import MissingExtra, StoreReadOnly, StoreTooNew
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.app import inspector
from steptrail.interfaces.http.inspector.security import Guarded, TokenDoor, is_loopback
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.masking import Show

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp


async def serve(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    mask_keys: tuple[str, ...] = (),
    show: Show = "values",
    user: str | None = None,
    store: str | None = None,
    projections: Sequence[Projection[Any]] = (),
    engine: str | None = None,
    on_ready: Callable[[str], None],
) -> None:
    """Serve the inspector of a store until the process is asked to end; `on_ready` is told its address.

    The store is opened for reading only, unless a `user` is named, who may act on runs, or its read models are in it,
    which are to be counted. Off this machine, a `host` is
    served to those alone who come with a token, which is in the address. Raises `MissingExtra` without the extra
    `inspector`, `OSError` for a port that is taken, and store errors.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("steptrail inspect", "inspector", error.name or "uvicorn") from error
    token = None if is_loopback(host) else secrets.token_urlsafe(32)
    door = None if token is None else TokenDoor(token)

    def authorize(connection: "HTTPConnection") -> Access | None:
        access = Access() if user is None else Access(may_act=True, user=user)
        return access if door is None or door.knows(connection) else None

    async with (
        _opened(url, only_counts=user is None, engine=engine, projections=projections) as trail,
        trail.views.kept_going(),  # so that no page has to wait until what is new is counted
    ):
        hosts = {"localhost", host, socket.gethostname()}
        app: ASGIApp = inspector(trail, authorize=authorize, mask_keys=mask_keys, show=show, hosts=hosts, store=store)
        if door is not None:
            app = Guarded(door.before(app), hosts)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as listening:
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                timeout_graceful_shutdown=2,
            )
            on_ready(_address(host, listening.getsockname()[1], token))
            await uvicorn.Server(config).serve(sockets=[listening])


def _opened(url: str, *, only_counts: bool, **settings: Any) -> Steptrail:
    if not only_counts or not url.startswith("sqlite"):
        try:
            return Steptrail.open(url, create=False, **settings)
        except (StoreReadOnly, StoreTooNew):
            if not only_counts:
                raise
    return Steptrail.open(url, create=False, read_only=True, **settings)


def _address(host: str, port: int, token: str | None) -> str:
    """Return the address to open. For a host that stands for all of this machine's it names this machine."""
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104 - only compared
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/" + (f"?token={token}" if token else "")
