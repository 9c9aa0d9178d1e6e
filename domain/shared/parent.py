"""Which effect of which stream another stream was begun for."""

from pydantic import Field

from steptrail.domain.base import FrozenModel

__all__ = ["ParentRef"]


class ParentRef(FrozenModel):
    """The effect of the stream above that this one was begun for, such as a tool call.

    `kind` is the kind of the stream above, such as `agent`, `session` its id and `execution` that of its run. `call` is
    the id that a model gave the call. `root` is the stream at the top of the tree, with its prefix, when that is not
    the parent itself, and `depth` how many levels below it this one is, from 1.
    """

    kind: str
    session: str
    execution: str
    effect: str
    call: str | None = None
    root: str | None = None
    depth: int = Field(default=1, ge=1)

    @property
    def stream(self) -> str:
        """The stream above, with its prefix."""
        return f"{self.kind}:{self.session}"

    @property
    def root_stream(self) -> str:
        """The stream at the top of the tree, with its prefix."""
        return self.root or self.stream
