"""The check that what a caller gives as a model is one."""

from typing import TYPE_CHECKING, cast

from steptrail.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from steptrail.runtime.kernel.ports import ModelDriver


def a_model(given: object, whose: str) -> "ModelDriver":
    """Return `given`, which must be a model driver. Raises `ConfigurationError` for anything else, such as a name."""
    if isinstance(given, type):
        raise ConfigurationError(f"{whose}: {given.__name__} is a class, and a model is an object of it")
    if not callable(getattr(given, "describe", None)) or not callable(getattr(given, "infer", None)):
        what = f"{given!r}" if isinstance(given, str) else type(given).__name__
        hint = 'give a driver of `steptrail.models`, such as `OpenAIModel("gpt-5-mini")`'
        raise ConfigurationError(f"{whose}: {what} is no model: {hint}")
    return cast("ModelDriver", given)
