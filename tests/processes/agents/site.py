"""Where a scenario takes place: one folder with the store, the tools' ledger, and gates that processes wait at."""

import asyncio
import time
from pathlib import Path

from steptrail.testing.crash import Ledger

SESSION = "s1"
_POLL_SECONDS = 0.01


class Site:
    """Gates are files, so every process sees them and no scenario depends on how long anything takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        """The address of the store: what the file `store` says, or a database in the folder."""
        address = self.folder / "store"
        return address.read_text(encoding="utf-8") if address.exists() else f"sqlite:///{self.folder / 'runs.db'}"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.jsonl")

    def reach(self, gate: str) -> None:
        """Say that somebody has come to the gate."""
        self._reached(gate).touch()

    def open(self, gate: str) -> None:
        """Let everybody through from now on."""
        self._opened(gate).touch()

    async def pass_through(self, gate: str) -> None:
        """Say that we are here and wait until the gate is open."""
        self.reach(gate)
        while not self._opened(gate).exists():
            await asyncio.sleep(_POLL_SECONDS)

    def block_at(self, gate: str) -> None:
        """Do the same without a loop."""
        self.reach(gate)
        while not self._opened(gate).exists():
            time.sleep(_POLL_SECONDS)

    def has_reached(self, gate: str) -> bool:
        return self._reached(gate).exists()

    def is_open(self, gate: str) -> bool:
        """Tell whether the gate has been opened."""
        return self._opened(gate).exists()

    def _reached(self, gate: str) -> Path:
        return self.folder / f"{gate}.reached"

    def _opened(self, gate: str) -> Path:
        return self.folder / f"{gate}.open"
