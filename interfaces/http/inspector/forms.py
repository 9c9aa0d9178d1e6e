"""Forms: they are taken from our own pages alone.

Three things must hold of a request that changes something. It comes from our origin, as the browser says. It has the
cookie that the page with the form was given, which no script reads and no other site has sent. And the form holds what
is derived from that cookie and the user, which another page cannot know. So a page of one user is no page of the next
who comes with the same browser.
"""

import hmac
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from steptrail.domain.digests import digest_of

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response

FORM_COOKIE: Final = "steptrail_form"
LONGEST_FORM: Final = 256_000
"""Bytes of a form; a longer one is refused before it is read."""
_LEAST = 32
"""Characters of a cookie of ours."""


class FormRefused(Exception):
    """A form that is not taken, with the status of the answer and what it says."""

    def __init__(self, status: HTTPStatus, said: str) -> None:
        super().__init__(said)
        self.status, self.said = status, said


class FormPass:
    """The cookie of a browser, and what the forms of a user of it hold."""

    def __init__(self, connection: "HTTPConnection", user: str) -> None:
        known = connection.cookies.get(FORM_COOKIE, "")
        self._is_new = len(known) < _LEAST
        self._cookie = secrets.token_urlsafe(_LEAST) if self._is_new else known
        self.token = digest_of(["steptrail form", self._cookie, user])
        """The text that each form holds."""

    def give(self, request: "Request", answer: "Response") -> None:
        """Put the cookie on an answer, if the browser has none."""
        if self._is_new:
            secure = request.url.scheme == "https"
            answer.set_cookie(FORM_COOKIE, self._cookie, httponly=True, samesite="strict", secure=secure)

    def fits(self, form: Mapping[str, str]) -> bool:
        """Tell whether a form was on a page that this user was given in this browser."""
        return hmac.compare_digest(form.get("token", "").encode(), self.token.encode())


async def read_form(request: "Request", user: str) -> Mapping[str, str]:
    """Return the fields of a form of one of our pages. Raises `FormRefused` for any other."""
    if not _is_of_ours(request):
        raise FormRefused(HTTPStatus.FORBIDDEN, "This did not come from a page of the inspector. Nothing was done.")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise FormRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "This is not a form. Nothing was done.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise FormRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This is more than a form may hold.")
    try:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=20))
    except ValueError:
        raise FormRefused(HTTPStatus.BAD_REQUEST, "This is not a form. Nothing was done.") from None
    form = {name: text.replace("\r\n", "\n") for name, text in form.items()}  # as it was typed
    if not FormPass(request, user).fits(form):
        said = "The page with the form was too old, or another user's. Nothing was done: go back, load it again."
        raise FormRefused(HTTPStatus.FORBIDDEN, said)
    return form


def _is_of_ours(request: "Request") -> bool:
    """Tell whether a request comes from our origin, as the browser says.

    One that does not say so in a word names its origin, of which a proxy may have changed the scheme alone.
    """
    if said := request.headers.getlist("sec-fetch-site"):
        return said == ["same-origin"]
    origins, hosts = request.headers.getlist("origin"), request.headers.getlist("host")
    if not len(origins) == len(hosts) == 1:
        return False
    try:
        return urlsplit(origins[0]).netloc.casefold() == hosts[0].casefold() != ""
    except ValueError:  # this is no address at all
        return False
