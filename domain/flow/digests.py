"""The digest of what a node is given, or of what a person is asked."""

import hashlib
import json

from steptrail.domain.json_value import JsonValue

__all__ = ["digest_of"]


def digest_of(value: JsonValue) -> str:
    """Return the SHA-256 of a value as compact JSON with sorted keys."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
