"""The annotation with options."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import PATHWAYS_OPTIONS, Refused, options

OPTIONS: Final = (
    *(
        Refused(f"options {text}", options(text), why, f"{PATHWAYS_OPTIONS}{path}", says)
        for text, why, path, says in (
            ("{", Why.INVALID_OPTIONS, "", "a JSON object with: imageRegistry"),
            ("[]", Why.INVALID_OPTIONS, "", "a JSON object with: imageRegistry"),
            ('{"subdomian": "a"}', Why.INVALID_OPTIONS, ".subdomian", "did you mean subdomain?, allowed: imageReg"),
            ('{"startup": "Later"}', Why.INVALID_OPTIONS, ".startup", "'InOrder', 'DependsOn' or 'AnyOrder'"),
            ('{"subdomain": "A"}', Why.INVALID_OPTIONS, ".subdomain", '"auto" or lower case letters'),
            ('{"subdomain": ""}', Why.INVALID_OPTIONS, ".subdomain", '"auto" or lower case letters'),
            ('{"dropMetadata": [" "]}', Why.INVALID_OPTIONS, ".dropMetadata[0]", "not be empty"),
            ('{"headNodeSelector": {"a b": "c"}}', Why.INVALID_OPTIONS, ".headNodeSelector", "not a label"),
            ('{"ttlSecondsAfterFinished": 2147483648}', Why.INVALID_OPTIONS, ".ttlSecondsAfterFinished", "2147483647"),
            ('{"ttlSecondsAfterFinished": -1}', Why.INVALID_OPTIONS, ".ttlSecondsAfterFinished", "or equal to 0"),
            ('{"imageRegistry": "a b"}', Why.INVALID_IMAGE, ".imageRegistry", "a host and perhaps a path"),
            (
                '{"headResources": {"proxy": {"limits": {"cpu": "much"}}}}',
                Why.INVALID_RESOURCES,
                ".headResources.proxy.limits.cpu",
                "not a quantity",
            ),
            (
                '{"headResources": {"proxy": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}}',
                Why.INVALID_RESOURCES,
                ".headResources.proxy.requests.cpu",
                "at most the limit, 1; got 2",
            ),
            ('{"headResources": {"rm": {}}}', Why.INVALID_OPTIONS, ".headResources.rm", "unknown option"),
            ('{"image_registry": "a"}', Why.INVALID_OPTIONS, ".image_registry", "did you mean imageRegistry?"),
            (
                '{"headResources": {"resource_manager": {}}}',
                Why.INVALID_OPTIONS,
                ".headResources.resource_manager",
                "unknown",
            ),
        )
    ),
    Refused(
        "part of v5p",
        options('{"slicing": "Sub"}'),
        Why.INVALID_SLICING,
        f"{PATHWAYS_OPTIONS}.slicing",
        "ct6e-standard-4t",
    ),
    Refused(
        "part that is whole",
        options('{"slicing": "Sub"}', workers={"type": "ct6e-standard-4t", "topology": "2x2"}),
        Why.INVALID_SLICING,
        f"{PATHWAYS_OPTIONS}.slicing",
        "at least 2x4",
    ),
    Refused(
        "cubes of less than one",
        options('{"slicing": "Super"}', workers={"type": "tpu7x-standard-4t", "topology": "2x4x4"}),
        Why.INVALID_SLICING,
        f"{PATHWAYS_OPTIONS}.slicing",
        "multiples of 4",
    ),
    Refused(
        "cubes of v5p",
        options('{"slicing": "Super"}', workers={"topology": "4x4x8"}),
        Why.INVALID_SLICING,
        f"{PATHWAYS_OPTIONS}.slicing",
        "tpu7x-standard-4t",
    ),
)
