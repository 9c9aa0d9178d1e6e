"""How much of what is stored survives a power cut: a setting of every store."""

from typing import Literal

Durability = Literal["full", "normal"]
"""`full`: each commit has reached the disk. `normal`: it survives a killed process. A power cut may lose all since the
last checkpoint, and then what it did happens again."""
