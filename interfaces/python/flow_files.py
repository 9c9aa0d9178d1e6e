"""From a file of YAML or JSON, and the code that is brought for it, to a workflow."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from steptrail.domain.errors import ConfigurationError, InvalidWorkflow
from steptrail.interfaces.python.flow_or_agent import is_flow_builder
from steptrail.interfaces.python.modules import load_module, run_of_theirs
from steptrail.runtime.agent.builder import AgentBuilder

if TYPE_CHECKING:
    from steptrail.domain.flow.diagnostic import Diagnostic
    from steptrail.runtime.flow.workflow import BuiltWorkflow

_SUFFIXES = {".yaml", ".yml", ".json"}
_MOST_BYTES = 1_050_000
"""A little more than a workflow may have, so that one that is too long is told from one that is not."""


class InvalidFlowFile(InvalidWorkflow):
    """The workflow in a file has faults."""

    def __init__(self, file: str, error: InvalidWorkflow) -> None:
        super().__init__(error.name, error.diagnostics)
        self.file = file

    @property
    def lines(self) -> Sequence[str]:
        """Each fault on a line, with its place."""
        return [place_and_fault(self.file, each) for each in self.diagnostics if each.severity == "error"]


class BroughtCode(Mapping[str, object]):
    """The public names of Python files and modules; those of `__all__` where a module has it.

    An agent or a workflow that is not built yet is built when it is first used. A name that two of them give to
    different things raises `ConfigurationError` when it is used, and so does what cannot be built.
    """

    def __init__(self, references: Sequence[str] = ()) -> None:
        """Import the modules. Raises `ConfigurationError` for one that cannot be imported."""
        self._modules = {each: load_module(each, "FILE.py or package.module") for each in references}
        self._built: dict[str, object] = {}

    @property
    def references(self) -> tuple[str, ...]:
        """The files and modules, as they were named."""
        return tuple(self._modules)

    def __getitem__(self, name: str) -> object:
        """Return what a name stands for."""
        homes = [each for each, module in self._modules.items() if name in _names(module)]
        found = [getattr(self._modules[each], name) for each in homes]
        if not found:
            raise KeyError(name)
        if any(value is not found[0] for value in found):
            raise ConfigurationError(f"{name!r} stands for different things in {' and '.join(homes)}")
        given = found[0]
        if name not in self._built:
            is_ready = not (isinstance(given, AgentBuilder) or is_flow_builder(given))
            self._built[name] = given if is_ready else run_of_theirs(given.build, f"{homes[0]}:{name}")
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(dict.fromkeys(name for module in self._modules.values() for name in _names(module)))

    def __len__(self) -> int:
        """Return the number of names."""
        return sum(1 for _ in self)


def is_flow_file(reference: str) -> bool:
    """Tell whether AGENT names a workflow in YAML or JSON."""
    return Path(reference).suffix.lower() in _SUFFIXES


def flow_of_file(file: str, use: BroughtCode) -> "BuiltWorkflow":
    """Return the workflow in a file. Raises `InvalidFlowFile`, and `ConfigurationError` for what cannot be read."""
    from steptrail.infrastructure.flow.loading import load_flow

    text = text_of_file(file)
    try:
        return load_flow(text, use)
    except InvalidWorkflow as error:
        raise InvalidFlowFile(file, error) from None


def text_of_file(file: str) -> str:
    """Return the text of a file, cut where no workflow goes on. Raises `ConfigurationError`."""
    try:
        with Path(file).open("rb") as opened:
            read = opened.read(_MOST_BYTES)
        return read.decode("utf-8-sig", "strict" if len(read) < _MOST_BYTES else "ignore")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {file}") from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is no text in UTF-8") from None


def _names(module: ModuleType) -> Sequence[str]:
    listed = getattr(module, "__all__", None)
    names = [name for name in vars(module) if not name.startswith("_")] if listed is None else listed
    return [name for name in names if not isinstance(getattr(module, name, module), ModuleType)]


def place_and_fault(file: str, found: "Diagnostic") -> str:
    """Return a fault as compilers print theirs: `file:line:column: code: message`, then what to do.

    A workflow that Python built has no lines: there the place in its definition stands behind the file.
    """
    has_lines = found.line is not None or not found.path
    place = f"{file}:{found.line or 1}:{found.column or 1}" if has_lines else f"{file}: {found.path}"
    level = "" if found.severity == "error" else f" {found.severity}:"
    hint = found.hint or ("--use FILE.py brings it" if found.code == "FL-105" else None)
    return f"{place}: {found.code}:{level} {found.message}" + (f" ({hint})" if hint else "")
