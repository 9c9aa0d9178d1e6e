"""How many examples a property is tried with: its own number in a hundred of those of the profile.

The profiles are in `tests/conftest.py`: fewest with `--fast`, most by night.
"""

from hypothesis import settings


def examples(number: int) -> settings:
    """Return the settings of a property that takes `number` examples where others take 100."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))
