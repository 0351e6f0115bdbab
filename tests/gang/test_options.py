"""What options of gangs need: from the cluster, and from the pods."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic.alias_generators import to_camel

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import Feature, Generation
from gangctl.gang.config import Gang, GangOptions
from gangctl.gang.generation import ServedVersion, dropped_options, pick_generation, proof_workload
from gangctl.gang.plan import build_objects
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import NEEDS
from tests.gang.pipeline import read, resolved, some_plan
from tests.jobsets import OPTIONS, jobset, rj
from tests.rows import each

Raw = dict[str, Any]
CLAIM = {"name": "net", "resourceClaimTemplateName": "channel"}
NAMED = {"name": "net", "resourceClaimName": "channel"}


def sharing(*claims: Raw, pods: list[Raw] | None = None, **options: Any) -> Raw:
    gang = {"name": "w", "replicatedJobs": ["w"], "resourceClaims": list(claims), **options}
    worker = rj("w", 1, 2, 2, pod={"resourceClaims": [CLAIM] if pods is None else pods})
    return jobset("js", worker, annotations={GANGS: json.dumps([gang])})


@each(
    ("feature", "raw", "path", "refused"),
    [
        (Feature.CLAIMS, sharing(CLAIM), f"{GANGS}][0].resourceClaims", True),
        (Feature.COMPOSITE, jobset("js", rj("w", 2, mode="Gang"), options='{"composite":true}'), "composite", True),
        (Feature.TOPOLOGY, sharing(CLAIM, topologyKey="rack"), f"{GANGS}][0].topologyKey", False),
        (Feature.DISRUPTION, jobset("js", rj("w"), mode="Gang", options='{"disruption":"all"}'), "disruption", False),
    ],
)
def test_what_the_cluster_lacks_is_an_error_or_a_warning(feature: Feature, raw: Raw, path: str, refused: bool) -> None:
    found = resolve(read(raw), ClusterRules(lacks=frozenset({feature})))
    if refused:
        (error,) = found.errors
        assert error.path.endswith(path)
        assert feature.gates in error.detail
        return
    (notice,) = found.notices
    assert (found.errors, notice.reason, notice.is_warning) == ((), Reason.OPTION_DROPPED, True)
    assert path in notice.message
    assert feature.gates in notice.message


ON_EVERY_MINOR: Final = {"sequenced", "name", "replicated_jobs", "per_replica", "min_count"}
"""Options that no API server drops: gangctl itself does what they ask for, or the oldest Workload has a field."""
VALUES: Final[dict[str, Any]] = {
    "topology_key": "rack",
    "disruption": "all",
    "resource_claims": [CLAIM],
    "composite": True,
}


def test_each_option_needs_a_feature_or_is_on_every_minor() -> None:
    fields = [*GangOptions.model_fields, *(name for name in Gang.model_fields if name not in GangOptions.model_fields)]
    assert sorted([*NEEDS, *ON_EVERY_MINOR]) == sorted(fields)


@each(
    ("model", "name"), [(model, name) for model in (GangOptions, Gang) for name in model.model_fields if name in NEEDS]
)
def test_an_option_that_the_cluster_lacks_is_never_ignored(model: type[GangOptions | Gang], name: str) -> None:
    option = to_camel(name)
    if model is Gang:
        raw, path = sharing(**{option: VALUES[name]}), f"metadata.annotations[{GANGS}][0].{option}"
    else:
        raw = jobset("js", rj("w"), mode="Gang", options=json.dumps({option: VALUES[name]}))
        path = f"metadata.annotations[{OPTIONS}].{option}"
    assert [error.path for error in resolved(raw, Generation.V1ALPHA1).errors] == [path]
    assert resolved(raw).errors == ()
    found = resolve(read(raw), ClusterRules(lacks=frozenset({NEEDS[name]})))
    assert path in " ".join([*map(str, found.errors), *(notice.message for notice in found.notices)])


@each("generation", [Generation.V1ALPHA2, Generation.V1BETA1])
def test_a_dry_run_shows_what_the_server_drops(generation: Generation) -> None:
    stored = proof_workload(generation, "gangctl-system")
    assert dropped_options(stored) == frozenset()
    template = stored["spec"]["podGroupTemplates"][0]
    template["schedulingConstraints"] = None
    del template["resourceClaims"]
    assert dropped_options(stored) == {Feature.TOPOLOGY, Feature.CLAIMS}
    assert dropped_options({}) == {Feature.TOPOLOGY, Feature.CLAIMS, Feature.DISRUPTION}


def test_composites_are_there_where_they_are_served() -> None:
    groups = ServedVersion(frozenset({"workloads", "podgroups"}))
    parents = ServedVersion(groups.resources | {"compositepodgroups"})
    for served, version in (
        ({"v1beta1": groups}, ""),
        ({"v1alpha2": groups, "v1alpha3": parents}, ""),
        # Kubernetes 1.37, and 1.38, which serves two versions of them.
        ({"v1beta1": groups, "v1alpha3": parents}, "v1alpha3"),
        ({"v1beta1": parents, "v1alpha3": parents}, "v1beta1"),
    ):
        state = pick_generation(served)
        assert state.composite == version, served
        assert state.capabilities.group_count_mutable is (version == "v1beta1")


def test_pods_that_name_the_claim_share_it() -> None:
    workload, *_ = build_objects(some_plan(sharing(CLAIM)), Generation.V1BETA1)
    assert workload["spec"]["podGroupTemplates"][0]["resourceClaims"] == [CLAIM]


@each(
    ("raw", "message"),
    [
        (
            sharing(CLAIM, pods=[]),
            '[0].resourceClaims[0]: no pod of the gang uses it: add {"name": "net", "resourceClaimTemplateName": "chan',
        ),
        (
            sharing(CLAIM, pods=[NAMED]),
            '[0].resourceClaims[0]: "resourceClaimTemplateName": "channel", and the pods of replicated job "w" have ',
        ),
        (sharing(CLAIM, NAMED), '[0].resourceClaims[1].name: "net" is also the name of '),
    ],
)
def test_a_claim_that_pods_would_not_share_is_rejected(raw: Raw, message: str) -> None:
    (error,) = resolved(raw).errors
    assert str(error).removeprefix(f"metadata.annotations[{GANGS}]").startswith(message), error


def test_an_option_of_all_gangs_has_its_own_place() -> None:
    found = resolved(jobset("js", rj("w"), mode="Gang", options='{"topologyKey":"rack"}'), Generation.V1ALPHA1)
    assert [error.path for error in found.errors] == [f"metadata.annotations[{OPTIONS}].topologyKey"]
