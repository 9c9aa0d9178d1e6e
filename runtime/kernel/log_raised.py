"""Logs what code of the user raised: with its traceback, and without what looks like a credential."""

import logging
from traceback import format_exception

from steptrail.domain.exception_words import unicode_text
from steptrail.domain.secrets import without_secrets


def log_raised(
    log: logging.Logger,
    raised: BaseException | None,
    said: str,
    *about: object,
    level: int = logging.WARNING,
    stacklevel: int = 2,
) -> None:
    """Log what is said about an exception, and its traceback, as from the place of the call."""
    if not log.isEnabledFor(level):
        return
    told = "".join(format_exception(raised))
    written = unicode_text(without_secrets(told))
    if written == told:
        log.log(level, said, *about, exc_info=raised, stacklevel=stacklevel)
    else:
        # The text holds what looks like a credential, or half of a surrogate pair, which no handler could write.
        log.log(level, f"{said}\n%s", *about, written.rstrip(), stacklevel=stacklevel)


def log_first(
    log: logging.Logger, raised: BaseException, who: str, told: object, session: str, failed_on: set[type[object]]
) -> None:
    """Log that `who` failed on what it was told of a session: once for each type of that, which `failed_on` keeps."""
    if type(told) not in failed_on:
        failed_on.add(type(told))
        said = "%s failed on %s of session %s; further failures on that are not logged"
        log_raised(log, raised, said, who, type(told).__name__, session, stacklevel=3)
