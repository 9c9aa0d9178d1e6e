"""An answer to a request: for whom, made of which template, and what it is when there is nothing to see."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from steptrail.domain.digests import digest_of
from steptrail.domain.errors import ConfigurationError, SessionNotFound, StoreError, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.cli.going_on import answers_to
from steptrail.interfaces.http.inspector.access import Access, Authorize, access_of
from steptrail.interfaces.http.inspector.bodies import LARGE
from steptrail.interfaces.http.inspector.counting import Counting
from steptrail.interfaces.http.inspector.forms import FormPass
from steptrail.interfaces.http.inspector.lists import seen_run
from steptrail.interfaces.http.inspector.words import pretty
from steptrail.interfaces.python.naming import stream_named
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.masking import Masking
from steptrail.projections.questions import Question
from steptrail.runtime.kernel.lists import growing_position
from steptrail.runtime.kernel.log_raised import log_raised

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

_log = logging.getLogger("steptrail.inspector")
_OF_PAGES = (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""The statuses of pages on which there may be forms: what was asked of them, or said in one, may be wrong."""


class _Unchanged(Exception):
    """The caller has the page as it is."""


class NotThere(Exception):
    """There is nothing here, or nothing that the caller may see."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A form that was refused: why, with which status, and what was typed into it, which must not be lost."""

    status: HTTPStatus
    said: str
    form: Mapping[str, str]


@dataclass(frozen=True)
class Answering:
    """Pages of one store. `store` is the address that commands have to name; None where they need none."""

    trail: Steptrail
    authorize: Authorize
    masking: Masking
    templates: "Environment"
    store: str | None
    counting: Counting

    def answer(
        self, page: "Callable[[Request, Access], Awaitable[Response]]"
    ) -> "Callable[[Request], Awaitable[Response]]":
        """Return the endpoint of a page. A no and a missing run are one answer.

        An `HTTPException` that `authorize` raises is the answer: so a service asks a browser for a name and a password.
        """

        async def answered(request: "Request") -> "Response":
            from starlette.exceptions import HTTPException
            from starlette.requests import ClientDisconnect
            from starlette.responses import Response

            try:
                access = await access_of(self.authorize, request)
                if access is None:
                    raise NotThere
                request.state.form = FormPass(request, access.user) if access.may_act else None
                with self.counting.pages_first():
                    return await page(request, access)
            except HTTPException:
                raise
            except ClientDisconnect:  # in the middle of its form
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            except _Unchanged:
                return Response(status_code=HTTPStatus.NOT_MODIFIED)
            except (NotThere, SessionNotFound):
                return self.shown(request, "missing.html", HTTPStatus.NOT_FOUND)
            except StoreError as error:
                _log.warning("a page could not be made: %s", error)
                said = self.masking.text(str(error))
                return self.shown(request, "trouble.html", HTTPStatus.SERVICE_UNAVAILABLE, said=said)
            except Exception as error:  # also of the user's functions, which say who may look and what is hidden
                log_raised(_log, error, "a page could not be made", level=logging.ERROR)
                said = "The page could not be made; the log of the inspector says why."
                return self.shown(request, "trouble.html", HTTPStatus.INTERNAL_SERVER_ERROR, said=said)

        return answered

    def shown(
        self,
        request: "Request",
        template: str,
        status: HTTPStatus = HTTPStatus.OK,
        tag: str | None = None,
        **values: Any,
    ) -> "Response":
        """Return a page, with the cookie that its forms need where there may be any."""
        from starlette.responses import HTMLResponse

        may_act = status in _OF_PAGES and getattr(request.state, "form", None) is not None
        form: FormPass | None = request.state.form if may_act else None
        text = self.templates.get_template(template).render(
            root=quote(request.scope.get("root_path", "")),
            now=self.trail.clock.utc(),
            masking=self.masking,
            tag=tag,
            token=None if form is None else form.token,
            **values,
        )
        page = HTMLResponse(text, status, None if tag is None else {"etag": tag})
        if form is not None:
            form.give(request, page)
        return page

    def tag(self, request: "Request", *parts: object) -> str:
        """Return the tag of a page that is made of these parts. Raises `_Unchanged` for a caller that has it."""
        minute = self.trail.clock.utc() // 60_000_000  # with it all that a page says of times grows old
        form: FormPass | None = request.state.form
        made_of: list[JsonValue] = [request.url.query, minute, "" if form is None else form.token, *map(str, parts)]
        tag = f'"{digest_of(made_of)}"'
        # A proxy that packs a page says of its tag that it is weak, and the browser then too.
        if request.headers.get("if-none-match", "").removeprefix("W/") == tag:
            raise _Unchanged
        return tag

    async def tag_of_log(self, request: "Request", access: Access) -> str | None:
        """Return the tag of a page of the whole store, which is made before anything is looked for; see `tag`.

        None for a caller of one tenant: what others do is in the log too, so the tag is made of what its page shows.
        """
        return None if access.tenant is not None else self.tag(request, await growing_position(self.trail.store))

    async def row(self, request: "Request", access: Access) -> RunSummary:
        """Return the row of the run that the address names, if the caller may see it."""
        return await self.row_named(request.path_params["session"], access)

    async def row_named(self, name: str, access: Access) -> RunSummary:
        """Return the row of a run by its name, if the caller may see it."""
        try:
            stream = stream_named(name)
        except ConfigurationError:
            raise NotThere from None
        if (seen := await seen_run(self.trail.store, access, stream)) is None:
            raise NotThere
        return seen

    def card(self, question: Question) -> "Card":
        """Return a question as pages show it."""
        asked = question.arguments if question.arguments is not None else question.data or None
        values = None if asked is None else dict(asked)
        shown = self.masking.value(values)
        return Card(
            name=stream_name(question.stream),
            values=None if shown is None else pretty(shown),
            is_large=shown is not None and len(pretty(shown)) > LARGE,
            prompt=None if question.prompt is None else self.masking.text(question.prompt),
            reason=None if question.reason is None else self.masking.text(question.reason),
            hides=not self.masking.shows_values or shown != values,
            schema=pretty(self.masking.value(dict(question.schema))) if question.schema is not None else None,
            commands=answers_to(question, store=self.store),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A question as a page shows it: its values as they may be shown, and the commands that answer it.

    `hides` tells that some of its values are not shown, and `schema` is what the data of an answer must fit.
    """

    name: str
    values: str | None
    is_large: bool
    hides: bool
    prompt: str | None
    reason: str | None
    schema: str | None
    commands: Sequence[str]


def number_in(request: "Request", name: str) -> int | None:
    """Return a number that the query of a request holds."""
    return number_of(request.query_params.get(name, ""))


def number_of_path(request: "Request", name: str) -> int | None:
    """Return a number that the path of a request holds; None where it has no such part. Raises `NotThere`."""
    said: str | None = request.path_params.get(name)
    number = None if said is None else number_of(said)
    if said is not None and number is None:
        raise NotThere
    return number


def number_of(said: str) -> int | None:
    """Return the number that a text of a request is, of at most 15 digits; None for any other text."""
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
