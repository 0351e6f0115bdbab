"""Paths in pod templates, as ``pkg/apis/core/validation`` checks them."""

from __future__ import annotations

from gangctl.apiserver.metadata import Causes


def validate_no_backsteps(text: str, path: str, causes: Causes) -> None:
    """Check that no element is ``..``."""
    if ".." in text.split("/"):
        causes.invalid(path, text, "must not contain '..'")


def validate_relative(text: str, path: str, causes: Causes) -> None:
    """Check a path below a directory (``validateLocalDescendingPath``)."""
    if text.startswith("/"):
        causes.invalid(path, text, "must be a relative path")
    validate_no_backsteps(text, path, causes)


def validate_file(text: str, path: str, causes: Causes) -> None:
    """Check the path of a file in a volume (``ValidateLocalNonReservedPath``)."""
    if not text:
        causes.required(path)
    validate_relative(text, path, causes)
    if text.startswith("..") and not text.startswith("../"):
        causes.invalid(path, text, "must not start with '..'")
