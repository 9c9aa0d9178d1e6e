"""The digest of a JSON value, by which it is recognised: a call's arguments, what a node is given, a question."""

import hashlib

import msgspec

from steptrail.domain.json_value import JsonValue

_compact = msgspec.json.Encoder(order="sorted").encode


def digest_of(value: JsonValue) -> str:
    """Return the SHA-256, in hexadecimal, of a value as compact JSON with sorted keys."""
    return hashlib.sha256(_compact(value)).hexdigest()
