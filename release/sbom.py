"""The bill of materials: CycloneDX 1.6 in JSON, of the packages that gangctl runs with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.licences import licence_of
from release.lock import PROJECT, Locked

OWN_LICENCE: Final = "Apache-2.0"


@dataclass(frozen=True)
class Release:
    """What is described.

    ``commit`` is a full hash, ``time`` the commit's in seconds since 1970, ``files`` the SHA-256 of what was built from
    it by file name.
    """

    version: str
    commit: str
    time: int
    files: Mapping[str, str]


def bill_of_materials(release: Release, packages: Sequence[Locked]) -> str:
    """The document, the same bytes for the same release: serial number and time come from the commit.

    The hashes of a package are those of every file that its lock lets be installed, for whichever platform, and so
    stand at its distribution. Raises ``ValueError`` where a licence is not known.
    """
    own = _own(release)
    components = {PROJECT: own}
    components.update({package.name: _component(package) for package in packages})
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{own.purl}#{release.commit}"),
        metadata=BomMetaData(
            component=own,
            timestamp=datetime.fromtimestamp(release.time, UTC),
            properties=[Property(name="gangctl:commit", value=release.commit)],
        ),
        components=[component for name, component in components.items() if name != PROJECT],
    )
    for name, component in components.items():
        needed = [package.name for package in packages if name in package.needed_by]
        bom.register_dependency(component, [components[other] for other in needed])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _own(release: Release) -> Component:
    return Component(
        type=ComponentType.APPLICATION,
        name=PROJECT,
        version=release.version,
        bom_ref=PROJECT,
        purl=PackageURL("pypi", name=PROJECT, version=release.version),
        licenses=[LicenseFactory().make_from_string(OWN_LICENCE)],
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(name),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            )
            for name, digest in release.files.items()
        ],
    )


def _component(package: Locked) -> Component:
    licence = licence_of(package)
    how = LicenseAcknowledgement.DECLARED if licence.declared else LicenseAcknowledgement.CONCLUDED
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        bom_ref=package.purl,
        scope=ComponentScope.REQUIRED,
        purl=PackageURL("pypi", name=package.name, version=package.version),
        licenses=[LicenseFactory().make_from_string(licence.expression, license_acknowledgement=how)],
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(package.purl),
                comment="each file of this version that may be installed",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
            )
        ],
    )
