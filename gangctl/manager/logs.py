"""Logs: one JSON object a line for machines, or text for people; never whole objects, never secrets."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from gangctl.errors import escaped


def _escape(_: Any, __: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Values on one printable line: names that others chose must not look like a separate line."""
    for key, value in record.items():
        if isinstance(value, str):
            record[key] = escaped(value)
    return record


def configure(level: str, form: str) -> None:
    """Send structlog's and the standard library's records to stderr at ``level`` as ``json`` or ``text``."""
    renderer: Any = structlog.processors.JSONRenderer()
    if form == "text":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # JSON escapes by itself, but has no form for an exception; the console renderer writes tracebacks itself.
            *([structlog.processors.format_exc_info] if form == "json" else [_escape]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]), stream=sys.stderr)
