"""One class name means one class."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

LAYERS = ("domain", "runtime", "infrastructure", "interfaces", "projections", "testing")


def defined_twice(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return the class names that more than one place of `sources`, pairs of a path and a text, defines."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, source in sources:
        for number, line in enumerate(source.splitlines(), start=1):
            if (each := re.match(r"\s*class (\w+)[(:]", line)) is not None:
                places[each[1]].append(f"{path}:{number}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_name_of_two_classes_is_found() -> None:
    sources = [("a.py", "class Wait: ...\nclass Other: ..."), ("b.py", "def f():\n    class Wait: ...\n")]
    assert defined_twice(sources) == {"Wait": ["a.py:1", "b.py:2"]}


def test_no_two_classes_of_the_product_have_one_name(root: Path) -> None:
    files = [path for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))]
    assert len(files) > 200
    assert defined_twice((str(path.relative_to(root)), path.read_text()) for path in files) == {}
