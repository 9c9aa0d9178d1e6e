"""The places in a list as they stand in an address: the run after which the next page begins.

A page of the read models ends at a position of the log, which says how much all tenants write. So who sees one tenant
alone is given a place sealed: the same for every process that serves the store, and of no use to anybody else. What
such a caller writes there itself is no place, so it does not tell whether there is a run of that name.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b, shake_256
from typing import Final

from steptrail.domain.errors import ConfigurationError
from steptrail.interfaces.http.inspector.access import Access
from steptrail.runtime.kernel.ports import EventStore

_MARK: Final = 12
"""Bytes by which a sealed place is known to be whole."""


async def sealed(store: EventStore, access: Access, place: str) -> str:
    """Return a place as a caller may know it."""
    if access.tenant is None:
        return place
    key, said = await _key(store), place.encode()
    mark = _mark(key, said)
    return urlsafe_b64encode(mark + _covered(key, mark, said)).decode()


async def unsealed(store: EventStore, access: Access, place: str) -> str:
    """Return the place that a caller names. Raises `ConfigurationError` for what was not sealed for it."""
    if access.tenant is None:
        return place
    try:
        decoded = urlsafe_b64decode(place.encode("ascii"))
    except ValueError:
        decoded = b""
    key, mark = await _key(store), decoded[:_MARK]
    said = _covered(key, mark, decoded[_MARK:])
    if not hmac.compare_digest(mark, _mark(key, said)):
        raise ConfigurationError(f"{place!r} is no place in this list")
    return said.decode()


async def _key(store: EventStore) -> bytes:
    """Return the digest of the oldest commit, which no page shows. Where that was erased, old places are none."""
    oldest = list[tuple[str, int]]()
    log = store.log(limit=1, on_corrupt=lambda error: oldest.append((error.stream, error.version)))
    oldest += [(stream, record.version) async for _, stream, record in log]
    return b"".join([await store.digest(*each) for each in oldest])


def _mark(key: bytes, said: bytes) -> bytes:
    return blake2b(said, key=key, digest_size=_MARK, person=b"steptrail list").digest()


def _covered(key: bytes, mark: bytes, text: bytes) -> bytes:
    """Return a text covered with bytes that follow from the key and its mark, or uncovered again."""
    cover = shake_256(key + mark).digest(len(text))
    return bytes(left ^ right for left, right in zip(text, cover, strict=True))
