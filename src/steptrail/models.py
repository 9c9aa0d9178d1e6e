"""Model drivers. A driver's client is imported when the driver is first used, never by this module."""

from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.local import LocalModel
from steptrail.infrastructure.models.openai import OpenAIModel

__all__ = ["LocalModel", "ModelReplyInvalid", "OpenAIModel"]
