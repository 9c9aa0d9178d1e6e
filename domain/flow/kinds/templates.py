"""Templates: texts with `{{ path }}` in them. They look up and write down, and have no logic."""

import re
from collections.abc import Collection, Iterator, Mapping

from steptrail.domain.flow.files import files_named, in_words
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen, needed
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.tools import result_text

_PLACE = re.compile(r"\{\{(.*?)(\}\}|\Z)", re.DOTALL)
"""A pair of braces, or the first that are not closed, with all behind them: so a text is read once."""
_PATH = re.compile(r"[^\s{}|()]+")


def is_path(text: str) -> bool:
    """Tell whether a text may stand between the braces of a template."""
    return _PATH.fullmatch(text) is not None


def places_in(template: str) -> Iterator[tuple[str, bool]]:
    """Yield what stands in each pair of braces of a template, and whether they are closed."""
    for place in _PLACE.finditer(template):
        yield (place[1].strip(), True) if place[2] else (place[1], False)


def rendered(template: str, seen: Seen) -> str:
    """Return the text of a template: values that are texts as they are, files in words, others as compact JSON.

    Raises `NodeFault` of the class `config` for a path at which there is nothing, and for what is no path.
    """

    def told(place: re.Match[str]) -> str:
        return result_text(in_words(needed(seen, _path(place[1])), seen.files)) if place[2] else place[0]

    return _PLACE.sub(told, template)


def files_shown(template: JsonValue, seen: Seen) -> tuple[FilePart, ...]:
    """Return the files that the places of a template name, each once, in their order. Raises what `rendered` does."""
    if not seen.files:
        return ()
    places = (place for text in _texts_in(template) for place in places_in(text))
    values = (needed(seen, _path(path)) for path, is_closed in places if is_closed)
    return tuple(dict.fromkeys(part for value in values for part in files_named(value, seen.files)))


def said(template: JsonValue, seen: Seen) -> tuple[str, tuple[FilePart, ...]]:
    """Return what a template says to a model: the text, and the files that it shows. Raises what `rendered` does."""
    return result_text(in_words(filled(template, seen), seen.files)), files_shown(template, seen)


def _texts_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


def filled(value: JsonValue, seen: Seen) -> JsonValue:
    """Return a value in which each text is rendered; a text that is one `{{ path }}` alone becomes the value itself.

    Raises `NodeFault` as `rendered` does.
    """
    match value:
        case str():
            alone = _alone(value)
            return rendered(value, seen) if alone is None else needed(seen, _path(alone))
        case dict():
            return {key: filled(item, seen) for key, item in value.items()}
        case list():
            return [filled(item, seen) for item in value]
        case _:
            return value


def arguments(args: Mapping[str, JsonValue], seen: Seen, required: Collection[str]) -> dict[str, JsonValue]:
    """Return the arguments of a call. One that is a path alone, at which there is nothing, is left out.

    Raises `NodeFault` of the class `config` for such a one that is `required`, and as `rendered` does.
    """
    made: dict[str, JsonValue] = {}
    for name, value in args.items():
        alone = _alone(value) if isinstance(value, str) else None
        path = "" if alone is None else alone.strip()
        if is_path(path) and name not in required and not seen.find(path)[0]:
            continue
        made[name] = filled(value, seen)
    return made


def _alone(text: str) -> str | None:
    """Return what stands in the braces of a text that is one pair of them; None for any other text."""
    inner = text[2:-2]
    return inner if text == f"{{{{{inner}}}}}" and "{{" not in inner else None


def _path(text: str) -> str:
    path = text.strip()
    if not is_path(path):
        raise NodeFault(FailureClass.CONFIG, f"{{{{{text}}}}} is no path: a template has no logic")
    return path
