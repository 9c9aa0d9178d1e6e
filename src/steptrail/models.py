"""Model drivers, and what it takes to write one.

A driver's client is imported when the driver is first used, never by this module.
"""

from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.prices import Cost, ModelPrice, PriceTable, Unpriced
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.local import LocalModel
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.runtime.ports import ModelDriver

__all__ = [
    "Cost",
    "FinishReason",
    "LocalModel",
    "ModelDriver",
    "ModelInfo",
    "ModelPrice",
    "ModelReply",
    "ModelReplyInvalid",
    "ModelRequest",
    "ModelUsage",
    "OpenAIModel",
    "PriceTable",
    "Unpriced",
    "Usage",
]
