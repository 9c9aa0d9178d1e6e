"""Values of columns that every database can hold, whatever a model, a provider or a user has made of them."""

from fractions import Fraction

from steptrail.domain.prices import Cost
from steptrail.domain.usage import Usage
from steptrail.projections.kernel.table import Row

_MOST = 2**53
"""So many microseconds are 285 years. A sum of a thousand such numbers fits into 64 bits."""


def whole(number: int) -> int:
    """Return the number, or the largest one that is counted."""
    return min(number, _MOST)


def micros(seconds: float) -> int:
    """Return seconds in microseconds."""
    return round(seconds * 1e6) if seconds < _MOST / 1e6 else _MOST


def nanos(cost: Cost) -> int:
    """Return a cost in billionths of a dollar, rounded down."""
    return whole(int(Fraction(cost.usd) * 10**9))


def tokens(usage: Usage) -> Row:
    """Return the columns of the five kinds of tokens."""
    five = {
        "tokens_input": usage.input,
        "tokens_output": usage.output,
        "tokens_cache_write": usage.cache_write,
        "tokens_cache_read": usage.cache_read,
        "tokens_reasoning": usage.reasoning,
    }
    return five if max(five.values()) < _MOST else {name: whole(count) for name, count in five.items()}


def day_of(at: int) -> int:
    """Return the day of an instant, in days of UTC since 1970."""
    return at // 86_400_000_000
