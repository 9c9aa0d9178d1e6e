"""What a driver raises by itself; everything else is raised by the provider's client."""

from steptrail.domain.errors import SteptrailError

__all__ = ["ModelFailed", "ModelReplyInvalid"]


class ModelReplyInvalid(SteptrailError):
    """The provider answered with something that is not a reply; classified `validation`.

    `why` says what is wrong with the body. The body itself is not kept: it may hold what the log must not.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the model's reply cannot be used: {why}")
        self.why = why


class ModelFailed(SteptrailError):
    """The provider reports a failure inside a successful response; its own word for it, or a status, classifies it."""

    def __init__(self, message: str, *, code: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
