"""The demo is a folder of scripts: its modules import each other from where they lie."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples" / "demo"))
