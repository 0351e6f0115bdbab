"""Names, of which those of Services and pods are made."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import Refused, options, put
from tests.pathways.samples import pathways_job

NAMES: Final = (
    Refused("name of 23", pathways_job("p" * 23), Why.NAME_TOO_LONG, "metadata.name", "at most 22 are possible"),
    Refused("name with a digit first", pathways_job("1pw"), Why.INVALID_NAME, "metadata.name", "first a letter"),
    Refused("name with a dot", pathways_job("a.b"), Why.INVALID_NAME, "metadata.name", "letters, digits and -"),
    Refused("no name", put("metadata", "name"), Why.INVALID_NAME, "metadata.name", "a name or a generateName", True),
    Refused(
        "generated name of 23",
        pathways_job(metadata={"name": None, "generateName": "p" * 18}),
        Why.NAME_TOO_LONG,
        "metadata.name",
        "23 characters, at most 22",
    ),
    Refused(
        "name with a long subdomain",
        options('{"subdomain": "abcdefghijklmnopqrstuvwxyz"}', name="p" * 19),
        Why.NAME_TOO_LONG,
        "metadata.name",
        "at most 18 are possible with subdomain",
    ),
    Refused(
        "name too long for any subdomain",
        options('{"subdomain": "auto"}', name="p" * 37),
        Why.NAME_TOO_LONG,
        "metadata.name",
        "at most 36",
    ),
    Refused(
        "pod too long",
        options(
            '{"subdomain": "s"}',
            name="p" * 43,
            workers={"type": "tpu7x-standard-4t", "topology": "16x24x24", "numSlices": 10_000},
        ),
        Why.NAME_TOO_LONG,
        "metadata.name",
        "at most 39 are possible: the longest pod",
    ),
    Refused("namespace", pathways_job(metadata={"namespace": "A_b"}), Why.INVALID_NAME, "metadata.namespace", "names"),
)
