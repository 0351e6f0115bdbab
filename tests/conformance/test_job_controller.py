"""The Job controller: failures by index, pod failure policies, work queues. The test plays the kubelet."""

from collections.abc import Callable

from tests.conformance.grounds import Server
from tests.conformance.objects import job, jobs, pod_spec, pods
from tests.controlplane.api import Object
from tests.controlplane.wait import NotYet, wait_for
from tests.rows import each

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
OWNER = "batch.kubernetes.io/controller-uid"
INDEXED: Object = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


async def start(server: Server, namespace: str, name: str, **spec: object) -> Object:
    """Create a Job, and wait for its pods; no scheduler takes them."""
    made = await server.api.create(jobs(namespace), job(name, pod_spec(terminationGracePeriodSeconds=0), **spec))
    await server.api.patch(jobs(namespace, name), {"spec": {"suspend": False}})
    await pods_of(server, namespace, made, made["spec"]["parallelism"])
    return made


async def pods_of(server: Server, namespace: str, owner: Object, count: int) -> list[Object]:
    """The pods of a Job that have not ended, once they are as many."""

    async def enough() -> list[Object]:
        found = await server.api.list(pods(namespace), labelSelector=f"{OWNER}={owner['metadata']['uid']}")
        going = [pod for pod in found if pod["status"]["phase"] == "Pending"]
        if len(going) != count:
            raise NotYet(f"{len(going)} pods")
        return going

    return await wait_for(enough, f"{count} pods")


async def end(server: Server, namespace: str, pod: Object, exit_code: int) -> None:
    """Report the end of a pod."""
    ended = {"exitCode": exit_code, "reason": "Ended", "finishedAt": pod["metadata"]["creationTimestamp"]}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed" if exit_code else "Succeeded",
        "containerStatuses": [{**container, "state": {"terminated": ended}}],
    }
    await server.api.patch(f"{pods(namespace, pod['metadata']['name'])}/status", {"status": status})


def with_index(found: list[Object], index: int) -> Object:
    (pod,) = (pod for pod in found if pod["metadata"]["annotations"][INDEX] == str(index))
    return pod


async def until(server: Server, namespace: str, name: str, holds: Callable[[Object], bool]) -> Object:
    async def so() -> Object:
        status: Object = (await server.api.get(jobs(namespace, name)))["status"]
        if not holds(status):
            raise NotYet(str(status))
        return status

    return await wait_for(so, f"the status of Job {name}")


def condition(status: Object, kind: str) -> Object | None:
    return next(
        (each for each in status.get("conditions", []) if (each["type"], each["status"]) == (kind, "True")), None
    )


async def until_failed(server: Server, namespace: str, name: str) -> tuple[Object, Object]:
    """The status of a failed Job, and its condition."""
    status = await until(server, namespace, name, lambda status: condition(status, "Failed") is not None)
    failed = condition(status, "Failed")
    assert failed is not None
    return status, failed


async def test_an_index_fails_of_its_own(server: Server, namespace: str) -> None:
    made = await start(server, namespace, "a", backoffLimitPerIndex=0, **INDEXED)
    found = await pods_of(server, namespace, made, 3)
    assert {pod["metadata"]["annotations"][FAILURES] for pod in found} == {"0"}
    await end(server, namespace, with_index(found, 1), 1)
    # A real one writes the two one after the other.
    status = await until(
        server, namespace, "a", lambda status: bool(status.get("failedIndexes") and status.get("failed"))
    )
    assert (status["failedIndexes"], status["failed"]) == ("1", 1)
    assert condition(status, "FailureTarget") is None
    # The others are not replaced, and the Job goes on.
    left = await pods_of(server, namespace, made, 2)
    for pod in left:
        await end(server, namespace, pod, 0)
    status, failed = await until_failed(server, namespace, "a")
    assert (failed["reason"], failed["message"]) == ("FailedIndexes", "Job has failed indexes")
    assert (status["completedIndexes"], status["failedIndexes"], status["succeeded"]) == ("0,2", "1", 2)


async def test_too_many_failed_indexes_fail_a_job(server: Server, namespace: str) -> None:
    made = await start(server, namespace, "a", backoffLimitPerIndex=0, maxFailedIndexes=1, **INDEXED)
    found = await pods_of(server, namespace, made, 3)
    await end(server, namespace, with_index(found, 0), 1)
    await until(server, namespace, "a", lambda status: status.get("failedIndexes") == "0")
    await end(server, namespace, with_index(found, 2), 1)
    status, failed = await until_failed(server, namespace, "a")
    assert (failed["reason"], failed["message"]) == (
        "MaxFailedIndexesExceeded",
        "Job has exceeded the specified maximal number of failed indexes",
    )
    assert (status["failedIndexes"], status["failed"]) == ("0,2", 3)


async def test_a_pod_has_the_failures_of_its_index_before_it(server: Server, namespace: str) -> None:
    made = await start(server, namespace, "a", backoffLimitPerIndex=1, **INDEXED)
    found = await pods_of(server, namespace, made, 3)
    await end(server, namespace, with_index(found, 1), 1)

    async def replaced() -> Object:
        now = await pods_of(server, namespace, made, 3)
        return with_index(now, 1)

    assert (await wait_for(replaced, "the next pod of the index"))["metadata"]["annotations"][FAILURES] == "1"
    status = await until(server, namespace, "a", lambda status: status.get("failed") == 1)
    assert not status.get("failedIndexes")


@each(("action", "failed_indexes", "failed"), [("FailIndex", "1", 1), ("Ignore", "", 0), ("Count", "", 1)])
async def test_a_rule_decides_what_a_failure_counts(
    server: Server, namespace: str, action: str, failed_indexes: str, failed: int
) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    name = action.lower()
    made = await start(server, namespace, name, backoffLimitPerIndex=1, podFailurePolicy={"rules": [rule]}, **INDEXED)
    found = await pods_of(server, namespace, made, 3)
    await end(server, namespace, with_index(found, 1), 42)
    # Of an ignored failure no number changes: the next pod shows that it was seen.
    if not failed_indexes:
        await pods_of(server, namespace, made, 3)
    expected = failed_indexes, failed
    await until(
        server, namespace, name, lambda status: (status.get("failedIndexes", ""), status.get("failed", 0)) == expected
    )


async def test_a_rule_fails_a_job(server: Server, namespace: str) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    made = await start(server, namespace, "a", podFailurePolicy={"rules": [rule]}, **INDEXED)
    pod = with_index(await pods_of(server, namespace, made, 3), 1)
    await end(server, namespace, pod, 42)
    _, failed = await until_failed(server, namespace, "a")
    assert failed["reason"] == "PodFailurePolicy"
    place = f"{namespace}/{pod['metadata']['name']}"
    assert failed["message"] == f"Container c for pod {place} failed with exit code 42 matching FailJob rule at index 0"


async def test_a_work_queue_keeps_its_active_pods_after_a_success(server: Server, namespace: str) -> None:
    made = await start(server, namespace, "a", parallelism=3)
    first, second, third = await pods_of(server, namespace, made, 3)
    await end(server, namespace, first, 0)
    await until(server, namespace, "a", lambda status: status.get("succeeded") == 1)
    await end(server, namespace, second, 1)
    await until(server, namespace, "a", lambda status: status.get("failed") == 1)
    assert [pod["metadata"]["name"] for pod in await pods_of(server, namespace, made, 1)] == [third["metadata"]["name"]]
    await end(server, namespace, third, 1)
    status = await until(server, namespace, "a", lambda status: condition(status, "Complete") is not None)
    assert (status["succeeded"], status["failed"]) == (1, 2)
