"""Tells whether a provider refused a request because the conversation is longer than the window of its model."""

from steptrail.domain.failures import ErrorInfo, ErrorType

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_CLASSES = frozenset({"ContextWindowExceededError", "RequestTooLargeError"})
_STATUSES = frozenset({None, 400, 413, 422})
_WORDS = (
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "maximum prompt length",
    "exceed context limit",
    "context length exceeded",
    "exceeds the context window",
    "exceed context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
)
"""The words of providers that give this error no code of its own, such as Anthropic, Bedrock, Gemini, xAI and vLLM."""


def is_too_long(error: ErrorInfo) -> bool:
    """Tell whether the error of a model call says so, by its code, its class, or the words of the provider."""
    if error.code in _CODES or error.error_class.rpartition(":")[2] in _CLASSES:
        return True
    if error.type not in {ErrorType.MODEL, ErrorType.VALIDATION} or error.status_code not in _STATUSES:
        return False
    said = error.message.lower()
    return any(words in said for words in _WORDS)
