"""Reads the messages that the SDK cannot read on standard streams: it passes over them, and calls do not end."""

import json
from typing import TYPE_CHECKING

from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import as_unicode

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


def read_again(error: Exception) -> "SessionMessage | Exception":
    """Return the message in a line of which the SDK says `error`; the error when there is none.

    A text in which half of a surrogate pair stands, as JavaScript leaves it where it cuts a text, has a question mark
    there. An answer that cannot be read all the same is one that says so.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
    from pydantic import ValidationError

    line = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    try:
        told: JsonValue = json.loads(line) if isinstance(line, str) else line
        whole = as_unicode(json.dumps(told, ensure_ascii=False))
    except (ValueError, RecursionError):
        return error
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except ValidationError:
        answer = told if isinstance(told, dict) and "method" not in told else {}
        request = answer.get("id")
    if answer.get("jsonrpc") != "2.0" or not isinstance(request, int | str):
        return error  # programs write other lines there too
    failed = ErrorData(code=PARSE_ERROR, message="Failed to parse JSON response: it breaks the protocol")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=failed))
