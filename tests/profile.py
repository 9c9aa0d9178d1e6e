"""How many examples a property is tried with: its own number in CI, in proportion fewer with `--fast`."""

from hypothesis import settings

__all__ = ["examples"]

_IN_CI = 100
"""The examples of the profile that CI uses; see `tests/conftest.py`."""


def examples(number: int) -> settings:
    """Return the settings of a property that CI tries with `number` examples."""
    return settings(max_examples=max(1, number * settings().max_examples // _IN_CI))
