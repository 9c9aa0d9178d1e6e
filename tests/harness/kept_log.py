"""Keeps the records of loggers, as a handler with the filter of the library sees them."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from steptrail import LogContext


class KeptLog(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.addFilter(LogContext())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, level: int) -> list[str]:
        """What was said of runs at a level."""
        return [each.getMessage() for each in self.records if each.levelno == level and each.name == "steptrail.runs"]

    def traced(self) -> list[tuple[str, str]]:
        """What was said with a traceback, and the traceback."""
        formatter = logging.Formatter()
        return [
            (record.getMessage(), formatter.formatException(record.exc_info))
            for record in self.records
            if record.exc_info is not None and record.exc_info[0] is not None
        ]

    def texts(self) -> list[str]:
        """All that a plain formatter writes, tracebacks too."""
        formatter = logging.Formatter("%(levelname)s %(name)s %(message)s")
        return [formatter.format(record) for record in self.records]

    def places(self, logger: str) -> list[tuple[object, ...]]:
        """Of each record of a logger its words, and where it was made."""
        names = ("session", "execution", "step", "node", "visit", "effect_id")
        return [
            (record.getMessage(), *(getattr(record, name) for name in names))
            for record in self.records
            if record.name == logger
        ]


@contextmanager
def kept_log(*names: str) -> Generator[KeptLog]:
    handler, loggers = KeptLog(), [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
