"""Which model answers: a provider's if the environment names one, else the embedded one, else a script that says so."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum

from steptrail import Message, SteptrailError
from steptrail.models import LocalModel, ModelDriver, ModelRequest, OpenAIModel
from steptrail.testing import Reply, ScriptedModel

__all__ = ["ModelKind", "available", "open_model"]


class ModelKind(StrEnum):
    """Where the answers come from."""

    LOCAL = "local"
    OPENAI = "openai"
    SCRIPTED = "scripted"


def available() -> tuple[ModelKind, str]:
    """Return what can be used here, and a line that says which it is and why."""
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        return (
            ModelKind.OPENAI,
            f"the model {_openai_name()} over the network, because the environment names a provider",
        )
    try:
        LocalModel()
    except SteptrailError as error:
        return ModelKind.SCRIPTED, f"A SCRIPT, NOT A MODEL, because the local model is not usable here: {error}"
    # In a process of its own: native code that does not suit this processor takes its process down with it.
    probe = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    if probe.returncode != 0:
        last = (probe.stderr.strip().splitlines() or [f"its process ended with {probe.returncode}"])[-1]
        return ModelKind.SCRIPTED, f"A SCRIPT, NOT A MODEL, because the local model does not run here: {last}"
    return ModelKind.LOCAL, "SmolLM2-135M inside the worker process: no account, no network"


def open_model(kind: ModelKind, script: Sequence[Reply]) -> ModelDriver:
    """Return the driver; `script` is what a scripted one says. Its delay gives a kill something to hit."""
    if kind is ModelKind.OPENAI:
        return OpenAIModel(_openai_name())
    return LocalModel() if kind is ModelKind.LOCAL else ScriptedModel(script, delay=0.15)


def _openai_name() -> str:
    return os.environ.get("OPENAI_MODEL", "gpt-5-mini")


async def _ask_once() -> None:
    model = LocalModel(parameters={"max_tokens": 1})
    try:
        await model.infer(ModelRequest(messages=(Message.user("Hello"),)))
    finally:
        await model.close()


if __name__ == "__main__":
    asyncio.run(_ask_once())
