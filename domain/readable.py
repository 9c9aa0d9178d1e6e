"""The classes that `msgspec` reads, made known to it by one thread.

It looks into a class when it first reads one. Another thread that reads the same class meanwhile finds it half known,
and the process dies of a segmentation fault (0.22). So a class is made known here before it is read.
"""

import os
from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_looking, _known = RLock(), set[Any]()

# A process that is forked while a class is half known would have it so for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_looking.acquire, after_in_parent=_looking.release, after_in_child=_looking.release)


@overload
def readable(kind: type[T]) -> type[T]: ...
@overload
def readable(kind: Any) -> Any: ...
def readable(kind: Any) -> Any:
    """Return a type, of which `msgspec` knows every class by then."""
    if kind not in _known:
        with _looking:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return kind
