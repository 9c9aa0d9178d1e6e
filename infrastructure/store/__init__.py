"""Event stores: `open_store` is the way in."""

from steptrail.infrastructure.store.opening import open_store

__all__ = ["open_store"]
