"""Buckets of times, from which percentiles are read that are at most two per cent off."""

import math

__all__ = ["bucket_of", "middle_of"]

_WIDTH = math.log(1.04)


def bucket_of(microseconds: int) -> int:
    """Return the bucket of a time; -1 for no time at all."""
    return math.floor(math.log(microseconds) / _WIDTH) if microseconds > 0 else -1


def middle_of(bucket: int) -> float:
    """Return the time that stands for all of a bucket, in microseconds."""
    return math.exp((bucket + 0.5) * _WIDTH) if bucket >= 0 else 0.0
