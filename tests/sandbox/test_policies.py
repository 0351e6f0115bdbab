"""What a real server would refuse in a policy when it is created, because it checks types that are left out here."""

from __future__ import annotations

from gangctl.sandbox.api import Api
from tests.rows import each
from tests.sandbox.asking import create, refused

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}


@each("expression", ["[1]", "null", "{}", "'x'"])
async def test_a_json_patch_that_is_no_list_of_objects_follows_the_failure_policy(expression: str) -> None:
    for failure_policy in ("Fail", "Ignore"):
        api = Api()
        spec = {
            "matchConstraints": {"resourceRules": [RULE]},
            "failurePolicy": failure_policy,
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }
        await create(api, "mutatingadmissionpolicies.admissionregistration.k8s.io", "p", spec=spec)
        binding = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"
        await create(api, binding, "b", spec={"policyName": "p"})
        if failure_policy == "Ignore":
            await create(api, "configmaps")
        else:
            assert "should evaluate to array of JSONPatch" in (await refused(api, "configmaps")).message
