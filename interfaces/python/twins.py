"""Makes the blocking twins of methods, for classes that do in a thread of their own what another class does."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from steptrail.infrastructure.portal import Portal

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


class Twin(Generic[A_co]):
    """Something blocking: `_asynchronous` does the work, in the loop of `_portal`."""

    def __init__(self, portal: Portal, asynchronous: A_co) -> None:
        self._portal, self._asynchronous = portal, asynchronous

    def __repr__(self) -> str:
        return f"<blocking {self._asynchronous!r}>"


def asynchronous_of(twin: Twin[A]) -> tuple[Portal, A]:
    """Return the loop of a twin, and what does its work in there."""
    return twin._portal, twin._asynchronous  # pyright: ignore[reportPrivateUsage]


class BlockingClosing(ABC):
    """A context manager that is closed when it is left."""

    @abstractmethod
    def close(self) -> None:
        """Close it. Safe to call twice."""

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def blocking(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Twin[A], P], T]:
    """Return the blocking form of an async method."""

    @wraps(method)
    def call(self: Twin[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(method(self._asynchronous, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


def made(
    method: Callable[Concatenate[A, P], B], twin: Callable[[Portal, B], T]
) -> Callable[Concatenate[Twin[A], P], T]:
    """Return a method that makes the blocking twin of what an ordinary method returns."""

    @wraps(method)
    def call(self: Twin[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return twin(self._portal, method(self._asynchronous, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


def fetched(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, B]], twin: Callable[[Portal, B], T]
) -> Callable[Concatenate[Twin[A], P], T]:
    """Return the blocking form of an async method, which makes the blocking twin of what that returns."""
    fetch = blocking(method)

    @wraps(method)
    def call(self: Twin[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return twin(self._portal, fetch(self, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call
