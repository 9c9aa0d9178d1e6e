"""What Steptrail raises, how failures are recorded, and the policy that decides what follows them."""

from steptrail.domain.errors import (
    AmbiguousId,
    AppendOutcomeUnknown,
    CommandRejected,
    ConcurrencyConflict,
    ConfigurationError,
    CorruptRecord,
    ExecutionFailed,
    MissingExtra,
    MissingRecord,
    NotAStore,
    OwnershipLost,
    RecordTooNew,
    SessionBusy,
    SessionNotFound,
    SteptrailError,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.policy.backoff import Backoff, BackoffKind
from steptrail.domain.policy.context import CanResolveErrorContext, ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.policy.resolver import AgentErrorContextResolver

__all__ = [
    "AgentErrorContextResolver",
    "AmbiguousId",
    "AppendOutcomeUnknown",
    "Backoff",
    "BackoffKind",
    "CanResolveErrorContext",
    "CommandRejected",
    "ConcurrencyConflict",
    "ConfigurationError",
    "CorruptRecord",
    "ErrorContext",
    "ErrorHandlingDecision",
    "ErrorInfo",
    "ErrorPolicy",
    "ErrorType",
    "ExecutionFailed",
    "MissingExtra",
    "MissingRecord",
    "NotAStore",
    "OwnershipLost",
    "RecordTooNew",
    "SessionBusy",
    "SessionNotFound",
    "StepError",
    "SteptrailError",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
]
