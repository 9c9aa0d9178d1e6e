"""The inspector as an application: the routes, and what every page can say.

GET /                          what needs somebody, and the newest runs
GET /runs                      a list of runs; its filters are the address
GET /runs/{session}[/{n}]      one run, or the n-th execution of a session
GET /state/{session}[/{n}]     the state of a run after any event, and what is new since another
GET /find/{session}[/{n}]      the events of a run in which a text stands
GET /why/{session}[/{n}]       why a run stands so, as JSON
GET /compare                   two runs beside each other
GET /inbox                     what people are asked, and how to answer
GET /failures                  how runs fail, those that are alike together
GET /stats                     what runs come to, by day and by agent
GET /body/{session}/{version}  one event whole, or with `?path=` a part of it
GET /health                    what can be said of the store
POST /act/{session}            what somebody says to a run, from a form of its page
GET /live                      hints of what has grown, as Server-Sent Events
"""

from collections.abc import Awaitable, Callable, Collection
from functools import cache
from http import HTTPStatus
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from steptrail.domain.errors import MissingExtra, stream_name
from steptrail.domain.kernel.given import a_function, a_kind_of, a_row, a_text
from steptrail.interfaces.cli.going_on import store_named
from steptrail.interfaces.cli.output import printable
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.interfaces.http.inspector import words
from steptrail.interfaces.http.inspector.access import Authorize
from steptrail.interfaces.http.inspector.acting import Acting
from steptrail.interfaces.http.inspector.counted import CountedPages
from steptrail.interfaces.http.inspector.counting import Counting
from steptrail.interfaces.http.inspector.pages import Pages
from steptrail.interfaces.http.inspector.run_pages import RunPages
from steptrail.interfaces.http.inspector.security import Guarded
from steptrail.interfaces.http.inspector.told import asked_text
from steptrail.interfaces.http.inspector.ways import shown_digest, ways_to_answer, ways_to_steer
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.decision_panel import share_of_limit
from steptrail.projections.masking import Mask, Masking, Show
from steptrail.projections.rendering import dollars

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_PACKAGE: Final = "steptrail.interfaces.http.inspector"
"""The package with the templates and the static files. It may lie in a zip."""
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def inspector(
    trail: Steptrail,
    *,
    authorize: Authorize,
    mask_keys: Collection[str] = (),
    mask: Mask | None = None,
    show: Show = "values",
    hosts: Collection[str] | None = None,
    store: str | None = None,
) -> "Starlette":
    """Return an application to mount: pages of the runs in `trail`, for callers for which `authorize` says what.

    `authorize` is asked with each request, and has no default: it returns an `Access`, or None for a caller that may
    see nothing, who gets the same 404 as for a run that is not there. The values of `mask_keys` are hidden, besides
    those whose keys mean a secret; `mask` returns what is shown of any value, given its key; with `show="shape"` no
    values are shown. `hosts` are the names under which the application is reached: other names are refused, so that no
    page of somebody else's can reach it under its own. `store` is the address that the commands on the pages name; they
    say `URL` in the place of one with a password.
    Nothing is written to the store but what a caller says whose `Access` has `may_act`. Raises `MissingExtra` without
    the extra `inspector`, and `ConfigurationError` for settings with which no page could be shown, or too much.
    """
    try:
        for used_later in ("jinja2", "sse_starlette"):  # what is missing is said here, and not to a browser
            import_module(used_later)
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtra("inspector", "inspector", error.name or "jinja2") from error
    a_kind_of(Steptrail, trail, "`trail`")
    a_function(authorize, "authorize", "the connection")
    names = None if hosts is None else [a_text(name, "each of hosts") for name in a_row(hosts, "hosts")]
    given = (trail, authorize, Masking(mask_keys, mask, show), _templates(), store_named(store), Counting(trail))
    pages, of_runs = Pages(*given), RunPages(*given)
    counted, acting = CountedPages(*given), Acting(*given, of_runs)
    return Starlette(
        routes=[
            Route("/", pages.answer(pages.overview)),
            Route("/runs", counted.answer(counted.runs)),
            *_of_an_execution("runs", of_runs.answer(of_runs.run)),
            *_of_an_execution("state", of_runs.answer(of_runs.state)),
            *_of_an_execution("find", of_runs.answer(of_runs.find)),
            *_of_an_execution("why", of_runs.answer(of_runs.why)),
            Route("/compare", of_runs.answer(of_runs.compare)),
            Route("/inbox", pages.answer(pages.inbox)),
            Route("/failures", counted.answer(counted.failures)),
            Route("/stats", counted.answer(counted.stats)),
            Route("/body/{session}/{version}", of_runs.answer(of_runs.body)),
            Route("/health", pages.answer(pages.health)),
            Route("/act/{session}", acting.answer(acting.act), methods=["POST"]),
            Route("/live", pages.answer(pages.live)),
            Route("/static/{place:path}", _StaticFiles(files(_PACKAGE) / "static").answer),
            Route("/{place:path}", pages.answer(pages.nothing)),
        ],
        middleware=[Middleware(Guarded, hosts=names)],
    )


def _of_an_execution(word: str, answer: "Callable[[Request], Awaitable[Response]]") -> "list[Route]":
    """Return the routes of what is said of a run, or of one of its executions by its number."""
    from starlette.routing import Route

    return [Route(f"/{word}/{{session}}", answer), Route(f"/{word}/{{session}}/{{ordinal}}", answer)]


class _StaticFiles:
    """The files beside the pages: few and small, so they are read once, and no other file can be asked for."""

    def __init__(self, folder: Traversable) -> None:
        self._files = {
            f"{group.name}/{file.name}": file.read_bytes()
            for group in folder.iterdir()
            if group.is_dir()
            for file in group.iterdir()
            if file.is_file()
        }

    async def answer(self, request: "Request") -> "Response":
        """Answer with a file."""
        from starlette.responses import PlainTextResponse, Response

        place = request.path_params["place"]
        kind = _KINDS.get(PurePath(place).suffix)
        if kind is None or place not in self._files:
            return PlainTextResponse("There is no such file.\n", HTTPStatus.NOT_FOUND)
        return Response(self._files[place], media_type=kind)


@cache
def _templates() -> "Environment":
    """Return the templates, compiled: to do it with the first page would cost that page a quarter of a second."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(_PACKAGE),
        auto_reload=False,
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words_of_ours: dict[str, Callable[..., object]] = {
        "ago": words.ago,
        "asked": asked_text,
        "clock": words.clock,
        "duration": words.duration,
        "name": stream_name,
        "share": share_of_limit,
        "size": words.size,
        "status": words.status_of,
        "status_of_row": words.status_of_row,
        "dollars": dollars,
        "ways": ways_to_answer,
        "ways_to_steer": ways_to_steer,
        "shown_digest": shown_digest,
        "stopped": how_it_stopped,
    }
    made.filters.update(words_of_ours)
    for each in (files(_PACKAGE) / "templates").iterdir():
        made.get_template(each.name)
    return made


def _harmless(value: object) -> object:
    """Return a value with control characters made visible. What a template made of values has passed here before."""
    return printable(value) if type(value) is str else value
