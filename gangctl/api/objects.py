"""Types of Kubernetes objects as JSON, and of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]
"""An object as it was read; it is never changed."""

Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is empty."""
