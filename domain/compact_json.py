"""JSON without spaces, also of whole numbers of more than 64 bits: a model, a tool or a schema may name them."""

import msgspec
import orjson


def compact_json(value: object) -> bytes:
    """Return a value as JSON. Raises `TypeError` for what has no JSON form."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Only then: the two spell a few floats differently, and digests of requests are of the first spelling.
        return msgspec.json.encode(value)
