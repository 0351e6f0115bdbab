"""Kyverno's admission controller as a process on loopback, and policies as its ValidatingPolicies in CEL.

The environment variable KYVERNO names a directory with Kyverno's source (1.19) in which ``go build -o admission
./cmd/kyverno`` was run. Nothing of it is part of gangctl, and without the variable it is left out.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import Ports
from tests.controlplane.process import Process
from tests.controlplane.wait import NotYet, wait_for

NAMESPACE: Final = "kyverno"
_GROUP: Final = "policies.kyverno.io/v1"
_POLICIES: Final = path_of(_GROUP, "validatingpolicies")
_DEFINITIONS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_CONFIG_MAPS: Final = path_of("v1", "configmaps", namespace=NAMESPACE)
_ENVIRONMENT: Final = (
    f"KYVERNO_NAMESPACE={NAMESPACE}",
    "KYVERNO_POD_NAME=kyverno-0",
    "KYVERNO_SERVICEACCOUNT_NAME=kyverno",
    "KYVERNO_ROLE_NAME=kyverno",
    "KYVERNO_DEPLOYMENT=kyverno",
    "KYVERNO_SVC=kyverno-svc",
    "INIT_CONFIG=kyverno",
    "METRICS_CONFIG=kyverno-metrics",
)
_REGISTRATIONS: Final = tuple(
    path_of("admissionregistration.k8s.io/v1", plural)
    for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
)


def source() -> Path | None:
    """Where Kyverno is; None where it is not."""
    given = os.environ.get("KYVERNO", "")
    return Path(given) if given else None


async def install(plane: ControlPlane) -> None:
    """Its definitions and configuration."""
    directory = source()
    assert directory is not None, "KYVERNO is not set"
    for file in sorted((directory / "config" / "crds").rglob("*.yaml")):
        for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            await plane.api.create(_DEFINITIONS, definition)
    await plane.api.create(path_of("v1", "namespaces"), {"metadata": {"name": NAMESPACE}})
    for name in ("kyverno", "kyverno-metrics"):
        await plane.api.create(_CONFIG_MAPS, {"metadata": {"name": name}})


@asynccontextmanager
async def running(plane: ControlPlane, policies: Iterable[tuple[str, Object]]) -> AsyncIterator[None]:
    """Kyverno with these policies, by name the spec of a GangPolicy, which deny; nothing of it stays."""
    specs = dict(policies)
    process = _process(plane)
    await process.start()
    try:
        for name, spec in specs.items():
            # Its webhook for policies is registered before it serves.
            made = _policy(name, spec)
            await wait_for(
                lambda made=made: plane.api.create(_POLICIES, made),  # type: ignore[misc]  # bound on purpose
                f"Kyverno to take {name}",
                tolerate=(ApiFailure,),
            )
        for name in specs:

            async def ready(name: str = name) -> bool:
                status = (await plane.api.get(f"{_POLICIES}/{name}")).get("status") or {}
                if not (status.get("conditionStatus") or {}).get("ready"):
                    raise NotYet(str(status))
                return True

            await wait_for(ready, f"Kyverno to know {name}")
        yield
    finally:
        for live in await plane.api.list(_POLICIES):
            await plane.api.delete(f"{_POLICIES}/{live['metadata']['name']}")
        await process.stop()
        # Without its process they would refuse everything.
        for path in _REGISTRATIONS:
            for live in await plane.api.list(path):
                if live["metadata"]["name"].startswith("kyverno"):
                    await plane.api.delete(f"{path}/{live['metadata']['name']}")


def _process(plane: ControlPlane) -> Process:
    directory, ports = source(), Ports()
    port = ports.take()
    command = [
        *("/usr/bin/env", *_ENVIRONMENT),
        f"{directory}/admission",
        f"--kubeconfig={plane.kubeconfig}",
        f"--serverIP=127.0.0.1:{port}",
        "--webhookServerHost=127.0.0.1",
        f"--webhookServerPort={port}",
        f"--metricsPort={ports.take()}",
        "--controllerRuntimeMetricsAddress=0",
        "--caSecretName=kyverno-ca",
        "--tlsSecretName=kyverno-tls",
        # As its chart sets them, but no admission reports: nothing is left of a dry run.
        "--omitEvents=PolicyApplied,PolicySkipped",
        "--admissionReports=false",
        # Otherwise API servers would evaluate the policies.
        "--generateValidatingAdmissionPolicy=false",
    ]

    async def ready() -> bool:
        names = [live["metadata"]["name"] for live in await plane.api.list(_REGISTRATIONS[0])]
        return any(name.startswith("kyverno-policy") for name in names)

    process = Process("kyverno", command, plane.directory / "kyverno.log", ready=ready)
    plane.add_guest(process)
    return process


def without_conditions(spec: Object) -> Object:
    """The policy with its matchConditions in each rule: Kyverno registers a webhook for each policy that has some."""
    conditions = " && ".join(f"({condition['expression']})" for condition in spec.get("matchConditions", ()))
    if not conditions:
        return spec
    rules = [{**rule, "expression": f"!({conditions}) || ({rule['expression']})"} for rule in spec["validations"]]
    return {**{key: value for key, value in spec.items() if key != "matchConditions"}, "validations": rules}


def _policy(name: str, spec: Object) -> Object:
    kept = ("matchConstraints", "matchConditions", "variables")
    rules = [{key: value for key, value in rule.items() if key != "name"} for rule in spec["validations"]]
    own = {"validationActions": ["Deny"], "failurePolicy": "Fail", "validations": rules}
    metadata = {"name": name}
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingPolicy",
        "metadata": metadata,
        "spec": {**{key: spec[key] for key in kept if key in spec}, **own},
    }
