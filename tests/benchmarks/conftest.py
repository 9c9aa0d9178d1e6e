"""The benchmarks are run from the root of the checkout, and their modules import each other from there."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
