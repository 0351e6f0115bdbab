"""ResourceQuotas on numbers of objects: what is counted, what is refused, and what a deletion frees."""

from collections.abc import Mapping

from tests.conformance.answers import forbidden
from tests.conformance.gangs import group
from tests.conformance.grounds import Server, only
from tests.conformance.objects import create_pod, job, jobs, lease, leases, pod, podgroups, pods, secret, secrets
from tests.conformance.tables import ask, cells, shown
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.wait import read_until, wait_for

LEASES = "count/leases.coordination.k8s.io"


def quotas(namespace: str, name: str | None = None) -> str:
    return path_of("v1", "resourcequotas", namespace=namespace, name=name)


async def count(server: Server, namespace: str, name: str, hard: Mapping[str, str]) -> None:
    """Create a quota, and wait until it is counted: a real server refuses everything until then."""
    await server.api.create(quotas(namespace), {"metadata": {"name": name}, "spec": {"hard": dict(hard)}})
    await until_used(server, namespace, name, **dict.fromkeys(hard, "0"))


async def limit(server: Server, namespace: str, **hard: str) -> None:
    """Create a quota `q`, and wait until it is in force: it is counted, and admission knows that of all quotas."""
    await count(server, namespace, "q", hard)
    # Admission has a watch of its own, in order: last it learns of a quota that refuses what no test creates.
    await count(server, namespace, "last", {"services": "0"})
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}

    async def refused() -> bool:
        try:
            await server.api.create(path_of("v1", "services", namespace=namespace), service, dryRun="All")
        except ApiFailure as failure:
            if "quota" not in failure.message:
                raise
            return True
        return False

    await wait_for(refused, "admission to know the quotas")


async def create_once_there_is_room(server: Server, path: str, obj: Object) -> None:
    """Admission learns later than a reader what was counted."""
    await wait_for(lambda: server.api.create(path, obj), f"room for one more in {path}", tolerate=(ApiFailure,))


async def until_used(server: Server, namespace: str, name: str = "q", **used: str) -> None:
    await read_until(
        lambda: server.api.get(quotas(namespace, name)),
        lambda obj: obj["status"].get("used") == used,
        f"the quota {name} to count {used}",
    )


async def test_a_quota_limits_the_number_of_objects(server: Server, namespace: str) -> None:
    await limit(server, namespace, **{LEASES: "1", "secrets": "1", "count/secrets": "2"})
    await server.api.create(leases(namespace), lease())
    exceeded = f"exceeded quota: q, requested: {LEASES}=1, used: {LEASES}=1, limited: {LEASES}=1"
    message = f'leases.coordination.k8s.io "b" is forbidden: {exceeded}'
    await forbidden(server.api.create(leases(namespace), lease("b")), message)
    await forbidden(server.api.create(leases(namespace), lease("b"), dryRun="All"), message)

    # Two entries may count the same objects; those that are exceeded are named.
    await server.api.create(secrets(namespace), secret())
    message = 'secrets "b" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1'
    await forbidden(server.api.create(secrets(namespace), secret("b")), message)
    await until_used(server, namespace, **{LEASES: "1", "secrets": "1", "count/secrets": "1"})

    # A change of an object needs nothing.
    await server.api.patch(leases(namespace, "a"), {"metadata": {"labels": {"new": "1"}}})
    # A deletion makes room.
    await server.api.delete(leases(namespace, "a"))
    await until_used(server, namespace, **{LEASES: "0", "secrets": "1", "count/secrets": "1"})
    await create_once_there_is_room(server, leases(namespace), lease("b"))


async def test_a_dry_run_uses_nothing_of_a_quota(server: Server, namespace: str) -> None:
    await limit(server, namespace, **{LEASES: "1"})
    await server.api.create(leases(namespace), lease(), dryRun="All")
    await server.api.create(leases(namespace), lease())


async def test_a_quota_for_pods_counts_those_that_have_not_ended(server: Server, namespace: str) -> None:
    await limit(server, namespace, **{"pods": "1", "count/pods": "2"})
    await create_pod(server, namespace, pod())
    exceeded = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    message = f'pods "b" is forbidden: {exceeded}'
    await forbidden(server.api.create(pods(namespace), pod("b")), message)
    await server.api.patch(f"{pods(namespace, 'a')}/status", {"status": {"phase": "Succeeded"}})
    await until_used(server, namespace, **{"pods": "0", "count/pods": "1"})
    await create_once_there_is_room(server, pods(namespace), pod("b"))


async def test_an_object_has_to_fit_into_each_quota(server: Server, namespace: str) -> None:
    counted = "count/jobs.batch"
    await count(server, namespace, "wide", {counted: "9"})
    await limit(server, namespace, **{counted: "0"})
    exceeded = f"exceeded quota: q, requested: {counted}=1, used: {counted}=0, limited: {counted}=0"
    message = f'jobs.batch "a" is forbidden: {exceeded}'
    await forbidden(server.api.create(jobs(namespace), job()), message)


@only("1.36", "1.37")
async def test_a_quota_limits_pod_groups(server: Server, namespace: str) -> None:
    counted = "count/podgroups.scheduling.k8s.io"
    await limit(server, namespace, **{counted: "1"})
    await server.api.create(podgroups(server, namespace), group())
    exceeded = f"exceeded quota: q, requested: {counted}=1, used: {counted}=1, limited: {counted}=1"
    message = f'podgroups.scheduling.k8s.io "h" is forbidden: {exceeded}'
    await forbidden(server.api.create(podgroups(server, namespace), group("h")), message)
    await server.api.delete(podgroups(server, namespace, "g"))
    await until_used(server, namespace, **{counted: "0"})
    await create_once_there_is_room(server, podgroups(server, namespace), group("h"))


async def test_columns_of_quotas(server: Server, namespace: str) -> None:
    await limit(server, namespace, **{"pods": "2", LEASES: "3"})
    table = await ask(server, quotas(namespace, "q"))
    assert shown(table) == ["Name", "Request", "Limit", "Age"]
    assert cells(table) == [["q", f"{LEASES}: 0/3, pods: 0/2", "", "AGE"]]


async def test_a_deleted_quota_is_returned(server: Server, namespace: str) -> None:
    await limit(server, namespace, **{LEASES: "1"})
    assert (await server.api.delete(quotas(namespace, "q")))["spec"]["hard"] == {LEASES: "1"}
