"""The error that a driver raises by itself; all others are raised by the provider's client."""

from urllib.parse import urlsplit

from steptrail.domain.errors import SteptrailError
from steptrail.domain.secrets import hide_keys_of, without_secrets


class ModelReplyInvalid(SteptrailError):
    """The provider answered with something that is not a reply; classified `model`, and worth another try.

    `why` says what is wrong with the body. The body itself is not kept: it may hold what the log must not.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the model's reply cannot be used: {why}")
        self.why = why


class ModelFailed(SteptrailError):
    """The provider reports a failure inside a successful response.

    `code` is its own word for it, `status_code` the HTTP status that it says it would have had. They classify it.
    """

    def __init__(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        super().__init__(message)
        self.code, self.status_code = code, status_code


class ModelUnreachable(SteptrailError, ConnectionError):
    """There is no response: nobody listens at the address, the connection broke, or it took too long.

    What the provider's client raised is its cause, and classifies it.
    """

    def __init__(self, model: str, address: str, error: Exception) -> None:
        beneath = error.__cause__ or error
        words = " ".join(str(beneath).split()) or type(beneath).__name__
        super().__init__(f"the model {model!r} at {address_of(address)} gave no answer: {without_secrets(words)}")
        self.model = model


def address_of(url: str) -> str:
    """Return an address without credentials, and without the query that may hold some."""
    hide_keys_of(url)
    parts = urlsplit(url)
    return without_secrets(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}")
