"""Buckets of times, from which percentiles are read that are at most two per cent off."""

import math

WIDTH = 1.04
"""The end of a bucket, of its beginning."""

_LOG = math.log(WIDTH)


def bucket_of(microseconds: int) -> int:
    """Return the bucket of a time; -1 for no time at all."""
    return math.floor(math.log(microseconds) / _LOG) if microseconds > 0 else -1


def middle_of(bucket: int) -> float:
    """Return the time that stands for all of a bucket, in microseconds."""
    return math.exp((bucket + 0.5) * _LOG) if bucket >= 0 else 0.0
