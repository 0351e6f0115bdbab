"""A JobSet and its Jobs get the answers of a real API server; agreement.py has the cases and the recorder."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.objects import copy
from gangctl.apiserver.create import create, errors_of_jobs, update
from gangctl.apiserver.jobsets import unknown_field
from gangctl.apiserver.metadata import Causes
from gangctl.apiserver.structural import check_value
from tests.apiserver.agreement import ANSWERS, CASES, PUBLIC, ask, errors
from tests.controlplane.api import Object
from tests.controlplane.binaries import JOBSETS
from tests.controlplane.plane import ControlPlane
from tests.jobsets import jobset, rj
from tests.rows import each

REAL: Final[dict[str, Object]] = json.loads(ANSWERS.read_text())
_EXAMPLES: Final = "kubernetes-sigs/jobset/site/static/examples/"
GATED: Final = {
    f"{_EXAMPLES}{name}.yaml"
    for name in (
        *("failure-policy/restartjob-action", "failure-policy/restartjobandignoremaxrestarts-action"),
        *("in-place-restart/jobset-main-container-mode", "in-place-restart/jobset-sidecar-container-mode"),
    )
}
"""Refused by the real one, whose feature gates are off; of a file it is not known whether they are on."""
_UNREADABLE: Final = [["", ""]]
"""JobSet's webhook cannot decode it: the answer names the first value of another type, and no field."""


@each("name", CASES)
def test_a_jobset_and_its_jobs_get_the_answer_of_a_real_server(name: str) -> None:
    found = json.loads(json.dumps(errors(create(CASES[name]))))
    if REAL[name]["refused"] == _UNREADABLE:
        assert {reason for reason, _ in found["refused"]} == {"FieldValueTypeInvalid"}
    elif name in GATED:
        assert REAL[name]["refused"] == [["InternalError", "<nil>"]]
        assert found["refused"] == []
    else:
        assert found == REAL[name]


@each("name", [name for name, said in REAL.items() if not said["refused"]])
def test_a_stored_jobset_is_stored_again_unchanged_and_gets_the_same_answer_in_admission(name: str) -> None:
    stored = create(CASES[name])
    again = create(stored.obj)
    assert again.obj == stored.obj
    assert again.unknown == ()
    assert errors_of_jobs(stored.obj) == stored.errors
    assert bool(stored.errors) is bool(REAL[name]["jobs"])


NETWORK: Final = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
BLOCKING: Final = {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"}
NAMED: Final = {"subdomain": "a", "enableDNSHostnames": True}


@each(
    ("before", "after", "kept"),
    [
        ({"network": NETWORK}, {"network": NETWORK}, {"network": NETWORK}),
        # JobSet's webhook is not called. The definition has a default for the second field, and none for the first.
        ({"network": NETWORK}, {}, {}),
        ({"network": NETWORK}, {"network": NAMED}, {"network": NAMED}),
        (
            {"failurePolicy": BLOCKING},
            {"failurePolicy": {"maxRestarts": 3}},
            {"network": NETWORK, "failurePolicy": {"maxRestarts": 3, "restartStrategy": "Recreate"}},
        ),
        # What was filled in, and neither has written, stays.
        ({}, {"network": None}, {"network": NETWORK}),
        ({}, {"network": {"subdomain": "a"}}, {"network": {"subdomain": "a", **NETWORK}}),
    ],
)
def test_an_update_lacks_what_it_takes_away(before: Object, after: Object, kept: Object) -> None:
    old, new = (jobset("js", rj("w", 1, 2, 2), **own) for own in (before, after))
    spec = update(new, old).obj["spec"]
    assert {field: spec[field] for field in ("failurePolicy", "network") if field in spec} == kept


def test_an_update_by_a_file_takes_away_what_kubectl_applied_before() -> None:
    was = jobset("js", rj("w", 1, 2, 2), network=NETWORK)
    live = create(was).obj
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(was)}
    live["metadata"] |= {"uid": "u", "labels": {"q": "a"}, "annotations": applied}
    made = update(jobset("js", rj("w", 1, 2, 2)), live).obj
    assert "network" not in made["spec"]
    assert made["metadata"]["labels"] == {"q": "a"}, "no file had it"


def test_an_update_by_a_file_keeps_what_an_object_of_a_cluster_was_filled_in_with() -> None:
    stored = create(jobset("js", rj("w", 1, 2, 2))).obj
    of_a_cluster = {**stored, "metadata": {**stored["metadata"], "uid": "1"}}
    assert update(jobset("js", rj("w", 1, 2, 2)), of_a_cluster).obj["spec"] == stored["spec"]


def test_the_public_manifests_are_those_that_were_asked_for() -> None:
    assert len(PUBLIC) >= 50
    assert REAL.keys() == CASES.keys()


@pytest.mark.full("asks a real server 400 times")
@pytest.mark.controlplane
@pytest.mark.components("jobset")
async def test_the_answers_are_those_of_a_real_server() -> None:
    async with ControlPlane.start("1.37", ("jobset",), scheduler=False, controller_manager=False) as plane:
        assert json.loads(json.dumps(await ask(plane.api, "default"))) == REAL


_LATER: Final = {"schedulingGroup", "volumeClaimPolicies"}
"""Fields that the JobSets before the newest may not have: their API server prunes them."""


@pytest.mark.full("asks a real server 800 times")
@pytest.mark.controlplane
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.components(name)) for name in JOBSETS[1:]])
async def test_earlier_jobsets_take_and_refuse_the_same_but_for_fields_that_they_do_not_have(name: str) -> None:
    async with ControlPlane.start("1.37", ("jobset",), jobset=name, scheduler=False, controller_manager=False) as plane:
        answers = await ask(plane.api, "default")
    for case, said in answers.items():
        new = {field.split(".")[-1] for field in {*said["unknown"]} - {*REAL[case]["unknown"]}}
        assert new <= _LATER, case
        # The errors of their webhooks name no fields.
        assert new or bool(said["refused"]) is bool(REAL[case]["refused"]), case


@each(
    ("name", "hint"),
    [
        ("gpu", "; did you mean nvidia.com/gpu or amd.com/gpu?"),
        ("gpus", "; did you mean nvidia.com/gpu or amd.com/gpu?"),
        ("nvidia", "; did you mean nvidia.com/gpu?"),
        ("TPU", "; did you mean google.com/tpu?"),
        ("widget", ""),
    ],
)
def test_a_resource_without_a_domain_is_refused_once_with_the_one_that_may_be_meant(name: str, hint: str) -> None:
    raw = copy(CASES["accelerator without its domain"])
    container = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {name: 8}}
    (error,) = create(raw).errors
    assert error.path.endswith(f".containers[0].resources.limits[{name}]")
    assert error.detail.endswith(f'"{name}": must be a standard resource for containers{hint}')


ANYTHING: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, item in inner for one in _paths(item, (*path, key)))]


def _with(value: Any, path: tuple[str | int, ...], other: Any) -> Any:
    if not path:
        return other
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _with(value[path[0]], path[1:], other)
    return changed


@given(st.data(), st.sampled_from(sorted(CASES)), ANYTHING)
def test_every_jobset_gets_an_answer_whatever_is_written_in_its_place(
    data: st.DataObject, name: str, other: Any
) -> None:
    raw = CASES[name]
    path = data.draw(st.sampled_from([path for path in _paths(raw) if path]))
    created = create(_with(raw, path, other))
    assert all(error.path or error.detail for error in created.errors)
    if path[0] != "metadata":  # which an API server has decoded
        assert errors_of_jobs(_with(raw, path, other)) is not None


@each(
    ("path", "meant"),
    [
        ("spec.replicatedJobs[0].template.spec.paralelism", "parallelism"),
        ("spec.replicatedJobs[0].template.spec.template.spec.nodeSelectors", "nodeSelector"),
        ("metadata.lables", "labels"),
        ("spec.sucessPolicy", "successPolicy"),
        ("spec.replicatedJobs[0].template.spec.template.spec.containers[1].resource", "resources"),
        ("speck", "spec"),
    ],
)
def test_an_unknown_field_is_named_with_the_field_that_is_near(path: str, meant: str) -> None:
    assert unknown_field(path).endswith(f"did you mean {meant}?")
    assert "did you mean" not in unknown_field(f"{path}xyzxyzxyzxyzxyzxyz")


@each(("text", "errors"), [("ab", 0), ("ab\n", 1), ("b", 1)])
def test_a_pattern_ends_where_the_text_does(text: str, errors: int) -> None:
    """In RE2 ``$`` is not also the place before a last newline."""
    causes = Causes()
    check_value(text, {"type": "string", "pattern": "^a.*$"}, "spec.x", causes)
    assert len(causes) == errors


@each(
    ("key", "profile", "refused"),
    [("x", "runtime/default", 1), ("main", "docker/default", 1), ("main", "localhost/a", 0), ("main", "", 0)],
)
def test_apparmor_annotations_are_of_containers_and_known_profiles(key: str, profile: str, refused: int) -> None:
    raw = jobset("js", rj("w", pod={"containers": [{"name": "main", "image": "i"}]}))
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"annotations": {f"container.apparmor.security.beta.kubernetes.io/{key}": profile}}
    assert [cause.reason for cause in create(raw).jobs] == ["FieldValueInvalid"] * refused


def test_pods_with_an_image_volume_of_no_image_can_never_be() -> None:
    for volume, refused in (({}, True), ({"reference": "r"}, False)):
        pod = {"containers": [{"name": "main", "image": "i"}], "volumes": [{"name": "v", "image": volume}]}
        paths = [error.path for error in create(jobset("js", rj("w", pod=pod))).errors]
        assert ("spec.replicatedJobs[0].template.spec.template.spec.volumes[0].image.reference" in paths) is refused
