"""The demo is a folder of scripts, which import each other from where they lie. The others are packages of the root."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT), str(ROOT / "examples" / "demo")]
