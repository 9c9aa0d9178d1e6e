"""How much of a state a slim document holds: every setting of it, and three sets of them."""

from dataclasses import dataclass

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_whole, check_flags

LEAST_BYTES = 4096
"""How many bytes a document may need that has no list, metadata or vote."""

_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SlimSerializationConfig:
    """Which parts a slim document leaves out. `None` means no limit.

    The newest `max_messages` messages are kept, and the newest `max_steps` steps, or all with `include_all_steps`, or
    none without `include_steps`. `max_content_length` is in characters of one text, beside the `...` that marks a cut;
    0 means no limit too. Without `include_tool_args` a tool call keeps its id and its name, and arguments are quoted
    nowhere: neither in the error of a call whose arguments did not fit, nor in the data that a provider wants back.
    Without `include_tool_results` a result only says that it is left out. `include_metadata` is about the session's
    metadata, `include_reasoning` about the reasoning that a model showed and that its provider wants back verbatim,
    `include_continuation_trace` about the votes of the last decision.

    `max_bytes` bounds the whole document as compact JSON in UTF-8, whatever arguments, metadata and names hold: parts
    that would make it larger are left out. Raises `ConfigurationError` for less than 4096, for limits that are no
    whole numbers from 0, and for what is neither True nor False.
    """

    max_messages: int | None = 50
    max_content_length: int | None = 1000
    include_tool_args: bool = True
    include_tool_results: bool = True
    include_metadata: bool = True
    include_reasoning: bool = False
    include_steps: bool = True
    max_steps: int | None = 20
    include_all_steps: bool = False
    include_continuation_trace: bool = False
    max_bytes: int | None = 512 * _KIB

    def __post_init__(self) -> None:
        check_flags(self)
        for name in ("max_messages", "max_content_length", "max_steps", "max_bytes"):
            if (value := getattr(self, name)) is not None:
                a_whole(value, name)
        if self.max_bytes is not None and self.max_bytes < LEAST_BYTES:
            raise ConfigurationError(f"max_bytes is {self.max_bytes}: no document is sure to fit into less than 4096")

    @classmethod
    def minimal(cls) -> "SlimSerializationConfig":
        """Return settings that keep ten short messages, and neither arguments nor results of tools."""
        return cls(
            max_messages=10,
            max_content_length=500,
            include_tool_args=False,
            include_tool_results=False,
            include_metadata=False,
            include_steps=False,
            max_steps=0,
            max_bytes=64 * _KIB,
        )

    @classmethod
    def standard(cls) -> "SlimSerializationConfig":
        """Return the defaults."""
        return cls()

    @classmethod
    def full(cls) -> "SlimSerializationConfig":
        """Return settings that leave out no part."""
        return cls(
            max_messages=None,
            max_content_length=None,
            include_reasoning=True,
            max_steps=None,
            include_all_steps=True,
            include_continuation_trace=True,
            max_bytes=None,
        )

    @property
    def steps_kept(self) -> int | None:
        """How many of the newest steps are kept; None means all."""
        if not self.include_steps:
            return 0
        return None if self.include_all_steps else self.max_steps
