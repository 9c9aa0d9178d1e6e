"""Where the demo keeps its things: the store, the ledger of the tools, and the bank."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ledger import Ledger
from orders import Bank

__all__ = ["Folder"]


@dataclass(frozen=True)
class Folder:
    """A working folder. Worker and demo find everything by its path."""

    path: Path

    @property
    def store(self) -> str:
        """The address of the event store."""
        return f"sqlite:///{self.path / 'runs.db'}"

    @cached_property
    def ledger(self) -> Ledger:
        """What the tools say they did."""
        return Ledger(self.path / "ledger.jsonl")

    @cached_property
    def bank(self) -> Bank:
        """The bank of the order."""
        return Bank(self.path / "bank")
