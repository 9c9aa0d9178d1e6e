"""Imports the Python files and modules that a caller names, and says on one line why one cannot be imported."""

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.module_names import name_from_a_file
from steptrail.domain.secrets import without_secrets
from steptrail.runtime.agent.frames import frames_of
from steptrail.runtime.kernel.log_raised import log_raised

_LONGEST = 300
"""Characters of somebody else's error that are told."""

T = TypeVar("T")

_log = logging.getLogger("steptrail.runs")


def load_module(target: str, wanted: str, *, file: str = "file") -> ModuleType:
    """Return the module in a file, if `target` looks like the path of one, else the module of that name.

    Raises `ConfigurationError`, which says what is `wanted` instead, and what kind of `file` there is not.
    """
    is_file = target.endswith(".py") or "/" in target or "\\" in target
    return _from_file(Path(target), wanted, file) if is_file else _from_module(target, wanted)


def _from_file(path: Path, wanted: str, file: str) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"there is no {file} {path}: give {wanted}")
    packages = takewhile(lambda folder: (folder / "__init__.py").is_file(), path.resolve().parents)
    itself = [] if path.stem == "__init__" else [path.stem]
    name = name_from_a_file(*reversed([*itself, *(folder.name for folder in packages)]))
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} is not a Python file: give {wanted}")
    module = importlib.util.module_from_spec(spec)
    # Like a script: modules beside it can be imported, and its own types find it by its name.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[spec.name] = module
    run_of_theirs(lambda: spec.loader.exec_module(module) if spec.loader else None, str(path))
    return module


def _from_module(name: str, wanted: str) -> ModuleType:
    if Path(name).suffix and Path(name).is_file():
        raise ConfigurationError(f"{name} is not a Python file: give {wanted}")
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"{name!r} is no module: give {wanted}")
    sys.path.insert(0, str(Path.cwd()))
    return run_of_theirs(lambda: importlib.import_module(name), name)


@contextmanager
def loggers_kept() -> Generator[None]:
    """Leave our loggers on: `logging.config` turns off all that are there, unless it is told not to."""
    off = {logger for logger in _our_loggers() if logger.disabled}
    try:
        yield
    finally:
        for logger in _our_loggers() - off:
            logger.disabled = False


def _our_loggers() -> set[logging.Logger]:
    names = [*logging.root.manager.loggerDict]
    return {logging.getLogger(name) for name in names if f"{name}.".startswith("steptrail.")}


def run_of_theirs(load: Callable[[], T], what: str) -> T:
    """Return what code of the caller returns. Raises `ConfigurationError`, which begins with `what` it is."""
    try:
        with loggers_kept():
            return load()
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from error
    except SystemExit as error:
        raise ConfigurationError(f"cannot import {what}: it ends the program (exit {error.code})") from error
    except Exception as error:
        raise ConfigurationError(f"cannot import {what}: {in_words(error)}") from error


def in_words(error: Exception) -> str:
    """Return what went wrong, and the innermost place in the user's code."""
    log_raised(_log, error, "what was named cannot be loaded")
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{kind}: {error.msg} ({Path(error.filename).name}:{error.lineno})"
    frames = frames_of([error])
    return f"{kind}: {_one_line(without_secrets(str(error)))}" + (f" ({frames[0]})" if frames else "")


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _LONGEST else joined[: _LONGEST - 1] + "…"
