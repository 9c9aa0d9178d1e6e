"""Logs what code of the user raised: with its traceback, and without what looks like a credential."""

import logging
from traceback import format_exception

from steptrail.domain.exception_words import unicode_text
from steptrail.domain.secrets import without_secrets


def log_raised(
    log: logging.Logger, raised: BaseException | None, said: str, *about: object, level: int = logging.WARNING
) -> None:
    """Log what is said about an exception, and its traceback, as from the place of the call."""
    if not log.isEnabledFor(level):
        return
    told = "".join(format_exception(raised))
    written = unicode_text(without_secrets(told))
    if written == told:
        log.log(level, said, *about, exc_info=raised, stacklevel=2)
    else:
        # The text holds what looks like a credential, or half of a surrogate pair, which no handler could write.
        log.log(level, f"{said}\n%s", *about, written.rstrip(), stacklevel=2)
