"""The data that a front end renders: the contract between a run and every user interface.

Front ends ignore keys that they do not know, so more may be added. A key that is absent is not known or not shown; no
key ever holds null, except inside of a tool's arguments. The JSON schema and the TypeScript types are made from these.
"""

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from steptrail.domain.messages import FilePart
from steptrail.domain.shared.run import ExecutionStatus, StopReason

UiRole = Literal["user", "assistant", "tool", "status"]
"""The role of the one who speaks; `status` is the run itself."""

UiStatusType = Literal["thinking", "tool_call", "tool_result", "error", "info", "continuation"]
"""The subject of a status message."""

UiToolStatus = Literal[
    "pending",
    "awaiting_approval",
    "awaiting_result",
    "running",
    "retrying",
    "suspended",
    "parked",
    "completed",
    "failed",
    "blocked",
    "denied",
    "cancelled",
    "interrupted",
]
"""Where a tool call stands; the guide for front ends has a line on each."""


class UiModel(BaseModel):
    """The base of all models of the contract."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the contract's JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_json(self) -> bytes:
        """Return the same as compact JSON in UTF-8."""
        return self.model_dump_json(exclude_none=True).encode()


class UiToolCall(UiModel):
    """A tool that an assistant message asks for.

    `id` is the model's own and may occur again in a later message; `message_id` is the id of the tool message that
    shows what became of this call. `args` and `args_summary` are there when the configuration shows them.
    """

    id: str
    name: str
    message_id: str | None = None
    args: dict[str, JsonValue] | None = None
    args_summary: str | None = None


class UiCitation(UiModel):
    """A source that an assistant message names; each key is there when the provider says it.

    `url` is an address of the web. `quote` is what stands in the source. `start` and `end` are the first character of
    `content` that rests on it and the one after the last.
    """

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = Field(default=None, ge=0)
    end: int | None = Field(default=None, ge=0)


class UiFile(UiModel):
    """A file beside the content: its SHA-256, under which it is fetched, its type, and its size in bytes."""

    digest: str
    mime_type: str
    size: int = Field(ge=0)
    filename: str | None = None

    @classmethod
    def of(cls, files: Iterable[FilePart]) -> "tuple[UiFile, ...] | None":
        """Return what is shown of files; None for none."""
        shown = (cls(digest=f.digest, mime_type=f.mime_type, size=f.size, filename=f.filename) for f in files)
        return tuple(shown) or None


class UiContinuation(UiModel):
    """The outcome of the newest decision; `resolved_by` is the short name of the criterion that decided it."""

    should_continue: bool
    stop_reason: StopReason | None = None
    resolved_by: str


class UiRetry(UiModel):
    """The try that is under way or comes next, from 1, and how many there may be."""

    attempt: int = Field(ge=1)
    of: int = Field(ge=1)


class UiMetadata(UiModel):
    """The details of a message beside its content. A result and an error exclude each other.

    `citations` are the sources of an assistant's words. `files` are those of a user's message, or of a tool's result.
    `said_by` names the hook that put the message into the
    conversation: no person said it. `waits_until` is when a call that waits goes on, or when the question about it
    expires. `tool_result` is what the model was shown, `tool_result_summary` its beginning. `tool_duration_ms` is in
    milliseconds.
    """

    tool_calls: tuple[UiToolCall, ...] | None = None
    citations: tuple[UiCitation, ...] | None = None
    files: tuple[UiFile, ...] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_status: UiToolStatus | None = None
    tool_result: str | None = None
    tool_result_summary: str | None = None
    tool_error: str | None = None
    tool_duration_ms: int | None = Field(default=None, ge=0)
    waits_until: str | None = None
    retry: UiRetry | None = None
    said_by: str | None = None
    status_type: UiStatusType | None = None
    continuation: UiContinuation | None = None

    @model_validator(mode="after")
    def _error_replaces_result(self) -> Self:
        if self.tool_error is not None and (self.tool_result is not None or self.tool_result_summary is not None):
            raise ValueError("an error replaces the result of a tool: a message has one of them")
        return self


class UiMessage(UiModel):
    """One message as it is rendered.

    `id` is unique in its conversation, and a message keeps it over reloads. `content` is what is shown of it at once,
    as plain text. `timestamp` is ISO 8601 in UTC with milliseconds; for a tool it is when the model asked.
    """

    id: str
    role: UiRole
    content: str
    timestamp: str
    metadata: UiMetadata | None = None

    @model_validator(mode="after")
    def _role_fits_metadata(self) -> Self:
        has_status = self.metadata is not None and self.metadata.status_type is not None
        if (self.role == "status") != has_status:
            raise ValueError("a status message says in status_type what it is about, and no other message has one")
        is_about_a_tool = self.metadata is not None and (
            self.metadata.tool_status is not None or self.metadata.tool_calls is not None
        )
        if self.role == "user" and is_about_a_tool:
            raise ValueError("a message of the user has nothing to do with a tool")
        return self


class UiApproval(UiModel):
    """A question to a person: may this call run? `id` is what `approve` and `deny` take.

    It is also the id of the call's tool message. `digest` is the SHA-256 of the exact arguments; without an answer by
    `expires_at` the call does not run.
    """

    id: str
    tool: str
    digest: str
    expires_at: str
    asked_by: str
    reason: str | None = None
    args: dict[str, JsonValue] | None = None
    args_summary: str | None = None


class UiConversation(UiModel):
    """All that a front end shows of a session, after `version` events.

    `stop_reason` is there once the last execution has ended, with `answered`: whether it came to an answer of its own,
    also at a limit. `error_message` is there when it has failed. `last_response` is the newest answer. `retry` is there
    while a failed step is tried again.
    """

    session_id: str
    status: ExecutionStatus
    version: int = Field(ge=0)
    messages: tuple[UiMessage, ...]
    approvals: tuple[UiApproval, ...]
    stop_reason: StopReason | None = None
    answered: bool | None = None
    error_message: str | None = None
    last_response: str | None = None
    retry: UiRetry | None = None
