"""Removes credentials from texts of other code, such as messages of exceptions and addresses.

Libraries put their arguments into their messages: addresses with passwords, headers that they refuse, the JSON of a
request. All such text passes here before it is written to a log or a terminal. After a name that means a secret, the
value is hidden. In an address, the user and the password are hidden. Keys of well-known services are found by their
form.

A key that has no such form is found if the process uses it: who has one says so, with `hide_from_now_on`. Who has an
address that may hold some, in its path or its query, says so with `hide_keys_of`, and who has headers, variables or the
arguments of a command with `hide_values_of`.

Each pattern reads a text once, and no pattern goes back over text that was matched before. Python compiles and keeps it
when it is first used, because most processes that load this never have such a text.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from steptrail.domain.json_value import JsonValue

_HIDDEN: Final = "…"

_SHORTEST, _MOST_IN_USE = 8, 1000
"""Characters of a key that is hidden: what is shorter (`EMPTY`, `ollama`) is no secret, and may be any word."""
_in_use: dict[str, None] = {}

_PRIVATE_KEY: Final = r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)"
_SHAPES: Final = (
    (r"(?i)([?&](?:key|sig)=)[^&\s'\"]++", r"\1…"),
    (r"(?i)\b((?:bearer|basic)\s++)[a-z0-9._~+/=-]{8,}+", r"\1…"),
    (r"\b(sk-|[rs]k_live_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|hf_)[\w*-]{6,}+", r"\1…"),
    (r"\b(eyJ)[\w-]{6,}+(?:(?=\.[\w-])\.[\w-]++)*+", r"\1…"),
    # HTTP clients have this message for a key that was pasted with the end of its line.
    (r"(?i)\b(illegal header value ).++", r"\1…"),
)

_ADDRESS: Final = r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://)([^\s'\"<>]++)"
_A_PORT: Final = r"[^/?#]*?:\d*+(?:[/?#]|\Z)"

_NAME: Final = r"(?<![\w.-])([\w.-]++)\\{0,3}['\"]?\s{0,9}+(?:=>|[=:])\s{0,9}+"
_HIDDEN_NAMES: Final = (
    r"(?i)(?:api|access|secret|private|account|auth|signing|encryption)[_.-]?key$|token$|pwd$|passphrase$|signature$|"
    r"authorization$|cookie$|credentials?$|secret|passw(?:or)?d"
)
# Before Python 3.11.5 a possessive group takes what its last round has matched before that round failed, so a round of
# these looks first at whether it will match.
_VALUE: Final = (
    r"(?s:(b?')(?:\\.|[^'\\])*+|(b?\")(?:\\.|[^\"\\])*+|(\\{1,3}(['\"]))(?:(?!\\{0,3}\4).)*+)"
    r"|(?:(?=[,;)}\]>]?[^\s'\"&,;)}\]>])[,;)}\]>]?[^\s'\"&,;)}\]>]++)++"
)
_CUT_OFF: Final = r"[\[{(](?:\S|\s++['\"\d\[{(])"
"""A bracket that opens a value: in a sentence, or in the line of a program, a blank and a word or a sign follow."""
_BRACKET: Final = r"[\[{(]|[\]})]|(?s:\"(?:\\.|[^\"\\])*+\"?)"
_OF_A_KEY: Final = r"(?i)^(?:key|sig|code|auth|pass|subscription-key|apikey)$"
"""Names in the query of an address that stand before a key, besides those that do so everywhere."""
_NAMES_A_KEY: Final = r"(?i)(?:key|auth|pass)$"
"""Names of headers and variables that hold a key, besides those that do so everywhere."""
_OPAQUE: Final = (
    r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|(?-i:(?<![a-zA-Z0-9])(?=[a-zA-Z]*[0-9])(?=[0-9]*[a-zA-Z])[a-zA-Z0-9]{16,}(?![a-zA-Z0-9]))"
    r"|(?-i:(?<![a-zA-Z])(?=[a-z]*[A-Z])(?=[A-Z]*[a-z])[a-zA-Z]{24,}(?![a-zA-Z]))"
)
"""Letters and digits without a word in them: keys, and ids of accounts, which look alike."""
_HEADER: Final = r"(?i)(?<![\w.-])((?:proxy-)?authorization: ?|(?:set-)?cookie: ?)[^\n'\"]++"


def hide_from_now_on(secret: str) -> None:
    """Have a credential that this process uses hidden in all texts, whatever it looks like. The newest 1000 are."""
    if len(secret) < _SHORTEST or secret in _in_use:
        return
    _in_use[secret] = None
    if len(_in_use) > _MOST_IN_USE:
        _in_use.pop(next(iter(_in_use)), None)


def hide_keys_of(url: str) -> None:
    """Have what looks like a key in the path or the query of an address that this process uses hidden in all texts."""
    parts = urlsplit(url)
    found = [each for each in parts.path.split("/") if re.search(_OPAQUE, each)]
    for each in re.split("[&;]", parts.query):
        name, _, value = each.partition("=")
        if re.search(_HIDDEN_NAMES, name) or re.search(_OF_A_KEY, name) or re.search(_OPAQUE, value):
            found.append(value)
    for key in found:
        hide_from_now_on(key)
        hide_from_now_on(unquote(key))


def hide_values_of(named: Iterable[tuple[str, str]]) -> None:
    """Have the values hidden in all texts whose name means a secret, or that look like a key.

    What comes last in a value is hidden alone too, since the kind of a credential may stand before it.
    """
    for name, value in named:
        last = value.rpartition(" ")[2]
        if re.search(_HIDDEN_NAMES, name) or re.search(_NAMES_A_KEY, name) or re.fullmatch(_OPAQUE, last):
            hide_from_now_on(value)
            hide_from_now_on(last)


def without_secrets(text: str, names: Collection[str] = ()) -> str:
    """Return the text with `…` in the place of everything that looks like a credential, or is one that is in use.

    So is what stands after one of the `names`, which are in the form of `casefold`.
    """
    for secret in tuple(_in_use):
        text = text.replace(secret, _HIDDEN)
    text = re.sub(_PRIVATE_KEY, _HIDDEN, text)
    text = re.sub(_ADDRESS, _without_caller, text)
    text = re.sub(_HEADER, r"\1…", text)
    text = _without_values(text, names)
    for pattern, replacement in _SHAPES:
        text = re.sub(pattern, replacement, text)
    return text


def without_secret_values(value: JsonValue) -> JsonValue:
    """Return the JSON with `…` in the place of each value whose key means a secret, however deep."""
    if isinstance(value, list):
        return [without_secret_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _HIDDEN if re.search(_HIDDEN_NAMES, key) else without_secret_values(inner) for key, inner in value.items()
    }


def _without_caller(found: "re.Match[str]") -> str:
    scheme, rest = found[1], found[2]
    last = rest.rfind("@")
    if last < 0:
        return found[0]
    end_of_authority = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    # A password that was not encoded may hold characters that end an authority. So the last @ is the one that counts.
    if end_of_authority < last and (":" not in rest[:end_of_authority] or re.match(_A_PORT, rest)):
        last = rest.rfind("@", 0, end_of_authority)
    return found[0] if last < 0 else f"{scheme}{_HIDDEN}{rest[last:]}"


def _without_values(text: str, names: Collection[str]) -> str:
    name, secret = re.compile(_NAME), re.compile(_VALUE)
    kept: list[str] = []
    closed: Mapping[int, int] | None = None
    at = 0
    while (named := name.search(text, at)) is not None:
        kept.append(text[at : named.end()])
        at = named.end()
        if re.search(_HIDDEN_NAMES, named[1]) is None and named[1].casefold() not in names:
            continue
        closed = _closed(text) if closed is None else closed
        if at in closed or re.compile(_CUT_OFF).match(text, at):
            kept.append(_HIDDEN)
            at = closed.get(at, len(text))  # a text may be cut off before the bracket that closes it
        elif (value := secret.match(text, at)) is not None:
            kept.append(f"{value[1] or value[2] or value[3] or ''}{_HIDDEN}")
            at = value.end()
    kept.append(text[at:])
    return "".join(kept)


def _closed(text: str) -> Mapping[int, int]:
    """Return the place behind the bracket that closes it for each bracket that is closed."""
    opened, closed = list[int](), dict[int, int]()
    for found in re.finditer(_BRACKET, text):
        if found[0] in "[{(":
            opened.append(found.start())
        elif found[0] in "]})" and opened:
            closed[opened.pop()] = found.end()
    return closed
