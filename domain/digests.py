"""The digest of a JSON value, by which it is recognised: a call's arguments, what a node is given, a question."""

import hashlib
import json

from steptrail.domain.json_value import JsonValue

__all__ = ["digest_of"]

_compact = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def digest_of(value: JsonValue) -> str:
    """Return the SHA-256, in hexadecimal, of a value as compact JSON with sorted keys."""
    return hashlib.sha256(_compact(value).encode(errors="surrogatepass")).hexdigest()
