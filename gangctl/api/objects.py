"""Kubernetes objects as JSON, and what names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]
"""An object as it was read; it is never changed."""

Key = tuple[str, str]
"""Namespace and name; the namespace of what is cluster-scoped is empty."""
