"""The reference from a stream to the effect of another stream that began it, and the id that follows from it."""

import hashlib

from msgspec.structs import replace

from steptrail.domain.base import Positive, Value


class ParentRef(Value, frozen=True, kw_only=True):
    """The effect of the stream above that began this stream, such as a tool call.

    `kind` is the kind of the stream above, such as `agent`; `session` is its id, and `execution` the id of its run.
    `call` is the id that a model gave the call. `root` is the stream at the top of the tree, with its prefix; None
    when that is the parent itself. `root_execution` is the id of its run up there; None when that is `execution`.
    `depth` is the number of levels from there to this stream, from 1.
    """

    kind: str
    session: str
    execution: str
    effect: str
    call: str | None = None
    root: str | None = None
    root_execution: str | None = None
    depth: Positive = 1

    def under(self, above: "ParentRef | None") -> "ParentRef":
        """Return this reference in a stream that `above` began itself; None for one at the top of its tree."""
        if above is None:
            return self
        return replace(self, root=above.root_stream, root_execution=above.top_execution, depth=above.depth + 1)

    @property
    def stream(self) -> str:
        """The stream above, with its prefix."""
        return f"{self.kind}:{self.session}"

    @property
    def root_stream(self) -> str:
        """The stream at the top of the tree, with its prefix."""
        return self.root or self.stream

    @property
    def top_execution(self) -> str:
        """The id of the run at the top of the tree."""
        return self.root_execution or self.execution


def session_for_call(effect_id: str) -> str:
    """Return the id of the stream that an effect runs. It is the same one when the effect runs again anywhere."""
    return f"child-{hashlib.sha256(effect_id.encode()).hexdigest()[:32]}"
