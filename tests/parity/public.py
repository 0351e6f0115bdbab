"""Rules of public collections of policies, in words of our own: what they say of requests, here and on a server."""

import asyncio
import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gangctl.cli.policy.requests import FileCatalogue
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.review import Operation
from gangctl.policy.variables import with_params
from tests.controlplane.api import ApiClient, path_of
from tests.controlplane.wait import NotYet, wait_for
from tests.parity.evaluated import NAMESPACE, review_of, violations_of
from tests.parity.native import installed, serve, warnings_of
from tests.parity.outcomes import comparable
from tests.parity.policies import GROUP, Object, labelled, native_policy, resource_of

DIRECTORY: Final = Path(__file__).parent / "public_policies"
RECORDED: Final = DIRECTORY / "recorded.json"
_DENIED: Final = " denied request: "
_MISSING: Final = "no params found"

Messages = tuple[str, ...]
"""Those of the rules that a request breaks; none where it is admitted without a warning."""


@dataclass(frozen=True)
class Request:
    """CREATE of an object, UPDATE of ``old``, or its DELETE."""

    operation: Operation
    obj: Object | None
    old: Object | None

    @property
    def subject(self) -> Object:
        """The object that the request names."""
        return self.obj or self.old or {}


@dataclass(frozen=True)
class Public:
    """A policy, the data of its parameters if there are any, and requests."""

    name: str
    spec: Object
    params: dict[str, str] | None
    requests: tuple[Request, ...]

    @property
    def config_map(self) -> Object:
        """The parameters."""
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}, "data": self.params}


@functools.cache
def public() -> dict[str, Public]:
    """All of them by name."""
    files = sorted(DIRECTORY.glob("*.yaml"))
    return {name: _read(name, entry) for file in files for name, entry in yaml.safe_load(file.read_text()).items()}


def _read(name: str, entry: Object) -> Public:
    spec = dict(entry["spec"])
    if "params" in entry:
        reference = {"name": name, "parameterNotFoundAction": "Deny"}
        spec |= {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "paramRef": reference}
    requests = tuple(_request(name, f"{name}-{number}", request) for number, request in enumerate(entry["requests"]))
    return Public(name, spec, entry.get("params"), requests)


def _request(policy: str, name: str, written: dict[str, Any]) -> Request:
    def complete(key: str) -> Object | None:
        if key not in written:
            return None
        metadata = {"name": name, **written[key].get("metadata", {})}
        return labelled({"apiVersion": f"{GROUP}/v1", "kind": "Pod", **written[key], "metadata": metadata}, policy)

    obj, old = complete("object"), complete("old")
    return Request("DELETE" if obj is None else "CREATE" if old is None else "UPDATE", obj, old)


def recorded() -> dict[str, list[Messages]]:
    """What a server said, by policy, for each request."""
    return {
        name: [tuple(messages) for messages in answers] for name, answers in json.loads(RECORDED.read_text()).items()
    }


def evaluated(case: Public, policy: LoadedPolicy) -> list[Messages]:
    """What gangctl says of each request, by the policy as it is loaded."""
    catalogue = FileCatalogue([] if case.params is None else [case.config_map], "parity")
    reviews = [review_of(request.operation, request.obj, request.old) for request in case.requests]
    return [
        _ordered(
            f"denied: {violation.message}" if violation.always else violation.message
            for violation in violations_of(policy, with_params(review, [policy], catalogue))
        )
        for review in reviews
    ]


def _ordered(messages: Iterable[str]) -> Messages:
    return tuple(sorted(map(comparable, messages)))


async def ask(api: ApiClient, namespace: str) -> dict[str, list[Messages]]:
    """What this server says, in a namespace of the caller's own."""
    cases = public()
    await serve(api, sorted({request.subject["kind"] for case in cases.values() for request in case.requests}))
    labels = {key: NAMESPACE["metadata"]["labels"][key] for key in ("team", "tier")}
    await api.patch(path_of("v1", "namespaces", name=namespace), {"metadata": {"labels": labels}})
    for case in cases.values():
        if case.params is not None:
            await api.create(path_of("v1", "configmaps", namespace=namespace), case.config_map)
    natives = {f"parity-{name}": native_policy(f"parity-{name}", case.spec, name) for name, case in cases.items()}
    limit = asyncio.Semaphore(16)

    async def answer(case: Public, request: Request) -> Messages:
        async with limit:
            return await _ask(api, namespace, case, request)

    async with installed(api, namespace, natives) as refused:
        assert not refused
        answers = await asyncio.gather(
            *(asyncio.gather(*(answer(case, request) for request in case.requests)) for case in cases.values())
        )
    return dict(zip(cases, answers, strict=True))


async def _ask(api: ApiClient, namespace: str, case: Public, request: Request) -> Messages:
    if request.old is None:
        return await _messages(api, namespace, case, "POST", request.subject)
    path = path_of(f"{GROUP}/v1", resource_of(request.old["kind"]), namespace=namespace)
    stored = await api.create(path, request.old)
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    subject = {**request.subject, "metadata": {**request.subject["metadata"], **version}}
    try:
        return await _messages(api, namespace, case, "DELETE" if request.obj is None else "PUT", subject)
    finally:
        await api.delete(f"{path}/{request.old['metadata']['name']}")


async def _messages(api: ApiClient, namespace: str, case: Public, method: str, obj: Object) -> Messages:
    async def complete() -> tuple[list[str]]:
        warnings, answer = await warnings_of(api, namespace, method, obj)
        messages = warnings.get(f"parity-{case.name}", [])
        if answer.status >= 400:
            denial = answer.body["message"].partition(_DENIED)[2]
            assert denial, answer.text
            if _MISSING in denial and case.params is not None:
                raise NotYet(denial)
            messages.append(f"denied: {denial}")
        return (messages,)

    (messages,) = await wait_for(complete, f"the server to have the parameters of {case.name}")
    return _ordered(messages)
