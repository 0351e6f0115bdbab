"""
What a kube-apiserver says of expressions: each becomes a ValidatingAdmissionPolicy that warns.

A dry-run create of the sample then answers with one warning for every expression that is false or fails; what does not
compile is refused when the policy is created. A few policies see each request, by label: the server cuts long warnings.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.controlplane.api import ApiClient, ApiFailure, path_of
from tests.controlplane.wait import wait_for
from tests.parity.corpus import SAMPLE
from tests.parity.outcomes import Outcome, native_outcome

GROUP: Final = "parity.gangctl.dev"
BATCH: Final = 8
_LABEL: Final = "parity.gangctl.dev/batch"
_AT_ONCE: Final = 16
_POLICIES: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
_BINDINGS: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
_CRDS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_WARNING: Final = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_OF: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy 'parity-(\d+)' with binding '[^']*': (.*)", re.DOTALL
)

Object = dict[str, Any]


def _definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"samples.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"},
            "versions": [version],
        },
    }


def _policy(number: int, expression: str, batch: str) -> Object:
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["samples"], "operations": ["CREATE"]}
    return {
        "metadata": {"name": f"parity-{number}"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": {_LABEL: batch}}},
            "validations": [{"expression": expression}],
        },
    }


def _binding(number: int) -> Object:
    name = f"parity-{number}"
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Warn"]}}


def sample(batch: str) -> Object:
    """The object that expressions are about, labelled for one batch."""
    labels = {**SAMPLE["metadata"]["labels"], _LABEL: batch}
    return {**SAMPLE, "metadata": {**SAMPLE["metadata"], "labels": labels}}


async def ask(api: ApiClient, namespace: str, expressions: Sequence[str]) -> dict[str, Outcome]:
    """Every expression's outcome on this server, in a namespace of the caller's own."""
    try:
        await api.create(_CRDS, _definition())
    except ApiFailure as failure:
        if failure.reason != "AlreadyExists":
            raise
    outcomes: dict[str, Outcome] = {}
    numbered = list(enumerate(expressions))
    # The last one of all is false for every batch: once it warns, the server has all that were created before.
    sentinel = len(numbered)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def propose(number: int, expression: str) -> None:
        async with limit:
            try:
                await api.create(_POLICIES, _policy(number, expression, str(number // BATCH)))
                await api.create(_BINDINGS, _binding(number))
            except ApiFailure as failure:
                if failure.status != 422:
                    raise
                outcomes[expression] = Outcome("refused", _refusal(failure))

    try:
        await asyncio.gather(*(propose(number, expression) for number, expression in numbered))
        batches = sorted({str(number // BATCH) for number, _ in numbered}, key=int)
        await _sentinel(api, sentinel, batches)
        for batch in batches:
            reported = await _await_told(api, namespace, batch, sentinel)
            for number, expression in numbered:
                if str(number // BATCH) == batch and expression not in outcomes:
                    outcomes[expression] = native_outcome(expression, reported.get(number))
    finally:
        await asyncio.gather(*(_remove(api, number, limit) for number in range(sentinel + 1)))
    return outcomes


async def _sentinel(api: ApiClient, number: int, batches: Sequence[str]) -> None:
    policy = _policy(number, "false", "")
    policy["spec"]["matchConstraints"]["objectSelector"] = {
        "matchExpressions": [{"key": _LABEL, "operator": "In", "values": list(batches)}]
    }
    await api.create(_POLICIES, policy)
    await api.create(_BINDINGS, _binding(number))


async def _await_told(api: ApiClient, namespace: str, batch: str, sentinel: int) -> dict[int, str]:
    reported: dict[int, str] = {}

    async def seen() -> bool:
        reported.clear()
        reported.update(await _told(api, namespace, batch))
        return sentinel in reported

    await wait_for(seen, "the server to evaluate the policies")
    return reported


async def _told(api: ApiClient, namespace: str, batch: str) -> dict[int, str]:
    """The warnings of one dry-run create, by number of the policy."""
    path = path_of(f"{GROUP}/v1", "samples", namespace=namespace)
    answer = await api.exchange(
        "POST",
        path,
        data=json.dumps(sample(batch)),
        parameters={"dryRun": "All"},
        headers={"Content-Type": "application/json"},
    )
    if answer.status == 404:  # the definition is not served yet
        return {}
    assert answer.status == 201, answer.text
    return dict(_parse(answer.headers.getall("Warning", [])))


def _parse(headers: Sequence[str]) -> Iterator[tuple[int, str]]:
    for header in headers:
        for text in _WARNING.findall(header):
            if match := _OF.match(text.replace('\\"', '"').replace("\\\\", "\\")):
                yield int(match[1]), match[2]


def _refusal(failure: ApiFailure) -> str:
    """The server's words on the expression, without the expression."""
    text = failure.message.partition(".expression: ")[2]
    line = (text.rpartition("compilation failed: ")[2] or text or failure.message).splitlines()[0]
    return line.rpartition('": ')[2] or line


async def _remove(api: ApiClient, number: int, limit: asyncio.Semaphore) -> None:
    async with limit:
        for path in (_BINDINGS, _POLICIES):
            try:
                await api.delete(f"{path}/parity-{number}")
            except ApiFailure as failure:
                if failure.status != 404:
                    raise
