"""Resources that tests use and gangctl does not."""

from __future__ import annotations

from typing import Final

from gangctl.client.resources import Resource

CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
