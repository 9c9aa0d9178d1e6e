"""Which messages front ends get, and in which form: every setting, and three sets of them."""

from typing import Literal

from steptrail.domain.base import Count, Settings

EnvelopeForm = Literal["epic", "reverb"]
"""How a body is laid out: `event`, `timestamp`, `agent_id`, `data`; or `type`, `session_id`, …, `payload`."""


class BroadcastConfig(Settings, frozen=True, kw_only=True):
    """The contents of the messages of a run, and which messages there are.

    `include_stream_chunks` is about text that the model writes: chunks of it, and the answer in the last status.
    `include_continuation_trace` adds a message for each decision, with every vote and never a vote's context.
    `auto_status_tracking` adds a message for each change of the run's status. Each of these changes which messages
    there are and never their ids.

    `include_tool_args` sends arguments of tools whole, their text cut to `max_arg_length` characters; otherwise a short
    summary is sent. Without `include_tool_summaries` there is no summary, neither of arguments nor of a result. An
    error is then only its type, and a vote has no words. With neither of the two no message holds anything that a tool
    was given or has returned.
    """

    include_stream_chunks: bool = True
    include_continuation_trace: bool = False
    include_tool_args: bool = False
    include_tool_summaries: bool = True
    max_arg_length: Count = 100
    auto_status_tracking: bool = True
    form: EnvelopeForm = "epic"

    @classmethod
    def minimal(cls, *, form: EnvelopeForm = "epic") -> "BroadcastConfig":
        """Return what sends no text that the model writes."""
        return cls(include_stream_chunks=False, form=form)

    @classmethod
    def standard(cls, *, form: EnvelopeForm = "epic") -> "BroadcastConfig":
        """Return the defaults."""
        return cls(form=form)

    @classmethod
    def debug(cls, *, form: EnvelopeForm = "epic") -> "BroadcastConfig":
        """Return what shows votes and arguments, with texts of up to 500 characters."""
        return cls(include_continuation_trace=True, include_tool_args=True, max_arg_length=500, form=form)
