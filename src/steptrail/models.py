"""Model drivers, and what it takes to write one.

A driver's client is imported when the driver is first used, never by this module.
"""

from steptrail.domain.inference import FinishReason, ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.prices import Cost, ModelPrice, PriceTable, Unpriced
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.infrastructure.models.anthropic import AnthropicModel
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid, ModelUnreachable
from steptrail.infrastructure.models.local import LocalModel
from steptrail.infrastructure.models.openai import OpenAIModel, OpenAIResponsesModel
from steptrail.runtime.kernel.ports import ModelDriver, StreamingModelDriver

__all__ = [
    "AnthropicModel",
    "BilledUsage",
    "Cost",
    "FinishReason",
    "LocalModel",
    "ModelDelta",
    "ModelDriver",
    "ModelFailed",
    "ModelInfo",
    "ModelPrice",
    "ModelReply",
    "ModelReplyInvalid",
    "ModelRequest",
    "ModelUnreachable",
    "ModelUsage",
    "OpenAIModel",
    "OpenAIResponsesModel",
    "PriceTable",
    "StreamingModelDriver",
    "Unpriced",
    "Usage",
]
