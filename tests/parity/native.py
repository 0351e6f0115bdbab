"""
What a kube-apiserver says of policies, each of which warns, about objects with a label of its own.

A dry run then answers with one warning for every rule that is broken or fails; what does not compile is refused when
the policy is created. A few policies see each request: the server cuts long warnings.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from tests.controlplane.api import Answer, ApiClient, ApiFailure, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.parity.corpus import SAMPLE
from tests.parity.outcomes import Outcome, native_outcome
from tests.parity.policies import GROUP, Native, Object, labelled, native_policy, resource_of

BATCH: Final = 8
_AT_ONCE: Final = 16
_POLICIES: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
_BINDINGS: Final = path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
_CRDS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_WARNING: Final = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_OF: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']*': (.*)", re.DOTALL
)


def _definition(kind: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": resource_of(kind), "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "metadata": {"name": f"{resource_of(kind)}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def serve(api: ApiClient, kinds: Iterable[str]) -> None:
    """Have objects of any content of these kinds."""
    for kind in kinds:
        try:
            await api.create(_CRDS, _definition(kind))
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise

        async def served(kind: str = kind) -> bool:
            await api.list(path_of(f"{GROUP}/v1", resource_of(kind)))
            return True

        await wait_for(served, f"{kind} to be served", tolerate=(ApiFailure,))


@asynccontextmanager
async def installed(api: ApiClient, namespace: str, policies: Mapping[str, Native]) -> AsyncIterator[Mapping[str, str]]:
    """Create policies, by name, and remove them again; yields the server's words on those that it refused.

    They are in force for a request whose answer has the warning of a last one, which is false for every object. Its
    name is that of the caller's namespace: the server may know the last one of another test for a while.
    """
    refused: dict[str, str] = {}
    limit = asyncio.Semaphore(_AT_ONCE)

    async def propose(name: str, native: Native) -> None:
        async with limit:
            try:
                await api.create(_POLICIES, native.policy)
                await api.create(_BINDINGS, native.binding)
            except ApiFailure as failure:
                if failure.status != 422:
                    raise
                refused[name] = _refusal(failure)

    try:
        await asyncio.gather(*(propose(name, native) for name, native in policies.items()))
        await propose(namespace, native_policy(namespace, {"validations": [{"expression": "false"}]}))
        yield refused
    finally:
        await asyncio.gather(*(_remove(api, name, limit) for name in (namespace, *policies)))


async def warnings_of(api: ApiClient, namespace: str, method: str, obj: Object) -> tuple[dict[str, list[str]], Answer]:
    """The warnings about one dry run by policy, and the answer."""
    path = path_of(f"{GROUP}/v1", resource_of(obj["kind"]), namespace=namespace)

    async def in_force() -> tuple[dict[str, list[str]], Answer]:
        answer = await api.exchange(
            method,
            path if method == "POST" else f"{path}/{obj['metadata']['name']}",
            data=None if method == "DELETE" else json.dumps(obj),
            parameters={"dryRun": "All"},
            headers={"Content-Type": "application/json"},
        )
        found: dict[str, list[str]] = {}
        for name, message in _parse(answer.headers.getall("Warning", [])):
            found.setdefault(name, []).append(message)
        # It reads a parameter that it does not know within a second: a slow machine is no evidence against it.
        if not found.pop(namespace, None) or "deadline exceeded" in f"{found}{answer.text}":
            raise NotYet(answer.text)
        return found, answer

    return await wait_for(in_force, "the server to evaluate the policies")


async def ask(api: ApiClient, namespace: str, expressions: Sequence[str]) -> dict[str, Outcome]:
    """Every expression's outcome on this server, in a namespace of the caller's own."""
    await serve(api, [SAMPLE["kind"]])
    numbered = {f"parity-{number}": expression for number, expression in enumerate(expressions)}
    batches = [list(numbered)[start : start + BATCH] for start in range(0, len(numbered), BATCH)]
    natives = {
        name: native_policy(name, {"validations": [{"expression": numbered[name]}]}, batch[0])
        for batch in batches
        for name in batch
    }
    outcomes: dict[str, Outcome] = {}
    async with installed(api, namespace, natives) as refused:
        for batch in batches:
            sample = labelled(SAMPLE, batch[0])
            warnings, answer = await warnings_of(api, namespace, "POST", sample)
            assert answer.status == 201, answer.text
            for name in batch:
                expression = numbered[name]
                if name in refused:
                    outcomes[expression] = Outcome("refused", refused[name])
                else:
                    (warning,) = warnings.get(name, [None])
                    outcomes[expression] = native_outcome(expression, warning)
    return outcomes


def _parse(headers: Sequence[str]) -> Iterator[tuple[str, str]]:
    for header in headers:
        for text in _WARNING.findall(header):
            if match := _OF.match(text.replace('\\"', '"').replace("\\\\", "\\")):
                yield match[1], match[2]


def _refusal(failure: ApiFailure) -> str:
    """The server's words on the expression, without the expression."""
    text = failure.message.partition(".expression: ")[2]
    line = (text.rpartition("compilation failed: ")[2] or text or failure.message).splitlines()[0]
    return line.rpartition('": ')[2] or line


async def _remove(api: ApiClient, name: str, limit: asyncio.Semaphore) -> None:
    async with limit:
        for path in (_BINDINGS, _POLICIES):
            try:
                await api.delete(f"{path}/{name}")
            except ApiFailure as failure:
                if failure.status != 404:
                    raise
