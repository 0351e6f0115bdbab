"""What the API server keeps of a reference decides whether gangs can be made; the reason says which gates to set."""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import Generation
from gangctl.gang.generation import evaluate_proof, proof_job, stamped_proof_job
from tests.gang.pipeline import GENERATIONS
from tests.rows import each

FIELDS = {
    Generation.V1ALPHA1: "workloadRef",
    Generation.V1ALPHA2: "schedulingGroup",
    Generation.V1BETA1: "schedulingGroup",
    Generation.V1: "schedulingGroup",
}


@each("generation", GENERATIONS)
def test_a_cluster_that_keeps_the_reference_can_make_gangs(generation: Generation) -> None:
    state = evaluate_proof(generation, proof_job(generation, "t"))
    assert (state.generation, state.available, state.reason) == (generation, True, "")


@each("generation", GENERATIONS)
def test_one_that_drops_it_cannot_and_the_gates_to_enable_are_named(generation: Generation) -> None:
    stored = proof_job(generation, "t")
    field = FIELDS[generation]
    del stored["spec"]["template"]["spec"][field]
    state = evaluate_proof(generation, stored)
    assert (state.generation, state.available) == (None, False)
    one = generation.capabilities.min_count_mutable
    both = "GenericWorkload on" if one else "GenericWorkload and GangScheduling on"
    assert f"serves {generation.api_version} but drops spec.{field} of pods: enable the feature gate {both}" in (
        state.reason
    )


@each("job", [proof_job(Generation.V1BETA1, "t"), stamped_proof_job("t")])
def test_usual_policies_about_pods_allow_it(job: dict[str, Any]) -> None:
    """Those of the libraries of Kyverno and Gatekeeper: a cluster that enforces one for all Jobs can make gangs."""
    template = job["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    _, _, tag = container["image"].partition(":")
    assert tag not in {"", "latest"}
    own = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == own
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"]["requests"] == container["resources"]["limits"]
    for labelled in (job, template):
        assert labelled["metadata"]["labels"]["app.kubernetes.io/name"] == "gangctl"


@each("stored", [{}, {"spec": None}, {"spec": []}, {"spec": {"template": {"spec": {"schedulingGroup": {}}}}}])
def test_an_answer_of_any_shape_keeps_no_reference(stored: dict[str, Any]) -> None:
    assert not evaluate_proof(Generation.V1BETA1, stored).available
