"""The changes: each is in the places of its row, and in no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.parity.corpus import cases
from tests.typicalchanges.edits import Change, Copy, Edit

_RULE: Final = """\
      - alert: GangWaitsLong
        expr: |
          max by (cluster, namespace, local_queue, cluster_queue) (
            gangctl_gangs{phase="starting"}
          ) > 100
        for: 3h
        labels:
          severity: warning
        annotations:
          summary: Gangs have waited for hours
          description: Gangs of {{ $labels.namespace }} have been starting for three hours. Gangs {{ $value }}.
          runbook_url: https://git.example/gangctl/blob/main/docs/runbooks/GangWaitsLong.md
          dashboard_url: /d/gangctl-overview
"""
_CASES: Final = """\
    Case(
        "GangWaitsLong",
        "for three hours",
        {phase("starting"): "_x4 101x300"},
        fires=200,
        labels=LABELS,
        says="Gangs of team-a have been starting for three hours. Gangs 101.",
    ),
    Case("GangWaitsLong", "few gangs", {phase("starting"): "_x4 100x300"}, silent=300),
"""
_RUNBOOK: Final = """\
# GangWaitsLong

## Meaning

Gangs have waited for three hours.

## Impact

Their users wait.

## Diagnosis

```sh
gangctl get -A
```

```promql
sum by (namespace) (gangctl_gangs{phase="starting"})
```

## Mitigation

Find out why each of them waits: `gangctl why NAME`.
"""
_REFUSAL: Final = '''\
def check_name(jobset: JobSet) -> list[FieldError]:
    """A name that is taken by the administrators."""
    if jobset.name != "administrators":
        return []
    return [FieldError("metadata.name", ErrorKind.INVALID, "is reserved for administrators: choose another name")]


'''
_OWNER: Final = """\
    if jobset.annotations.get(GANG_OWNER) == "":
        errors.append(FieldError(f"metadata.annotations[{GANG_OWNER}]", ErrorKind.INVALID, "is empty: leave it out"))
"""
_CHECK: Final = '''\


@check("jobset-version", Area.JOBSET, "Is the newest version of JobSets served?", "discovery of jobset.x-k8s.io")
async def newest(cluster: Cluster) -> Outcome:
    """The list of versions is that of discovery."""
    served = await jobset_versions(cluster)
    if "v1" not in served and len(served) > 1:
        return warning("no stable version is served", remedy="install a newer JobSet")
    return ok("one version is served")
'''
_CHECK_CASES: Final = """\
    Case("jobset-version", {"jobset_versions": ("v1alpha2", "v1beta1")}, WARNING, "no stable version"),
    Case("jobset-version", {"jobset_versions": ("v1alpha2", "v1")}, OK, "is served"),
"""
_METRIC: Final = """\
    Gauge("gangctl_shards", "How many leaders share the namespaces.", registry=registry).set(settings.shards)
"""
_FINDER: Final = '''\
def full_disks(context: Context) -> Iterator[Cause]:
    """Containers that cannot write to their disk."""
    full = [(group, pod) for group in context.groups for pod in group.pods if pod.waiting == "DiskFull"]
    if not full:
        return
    pods = [pod for _, pod in full]
    yield context.cause(
        Reason.DISK_FULL,
        f"the disk of {plural(len(pods), 'pod')} is full",
        evidence=[f"pods {listed(pod.name for pod in pods)} on {listed(pod.node for pod in pods)}"],
        remedy="ask for more ephemeral-storage in a new JobSet",
        command=context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in pods)),
        groups=[group for group, _ in full],
        pods=len(pods),
        since=oldest(pod.ready_at or pod.placed_at for pod in pods),
    )


'''
_CAUSE_TESTS: Final = """\
@pytest.mark.parametrize("waiting", ["DiskFull", "Error"])
def test_a_full_disk_is_found(waiting: str) -> None:
    context = Context(JS)
    found = reasons(placed(context, context.pods({**RUNNING, "waiting": waiting})))
    assert (Reason.DISK_FULL in found) is (waiting == "DiskFull")


"""
_SITUATION: Final = """\
@stored(Reason.DISK_FULL, "snapshot; simulated containers write nothing", Command.DESCRIBE_POD)
def full_disks() -> list[Object]:
    found = ended_containers()
    for pod in dump.pods_of(found, WAITS):
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "DiskFull"
    return found


"""
_TIMES: Final = """\
def _times(quantity: Quantity, factor: int) -> Quantity:
    product = quantity.unscaled * factor
    return Quantity(product, quantity.exponent, quantity.exact and INT_MIN <= product <= INT_MAX)


"""
_PRODUCT: Final = "quantity('500m').mul(3) == quantity('1500m')"
_SETTING: Final = """\
    metrics_namespace_limit: Annotated[int, Field(ge=0)] = Field(
        default=200, description="Namespaces that have series of their own; the others are counted together."
    )
"""

CHANGES: Final[Mapping[str, Change]] = {
    "refusal": (
        Edit("gangctl/gang/validate.py", _REFUSAL, before="def check_jobs("),
        Edit(
            "gangctl/gang/resolve.py",
            "    draft.errors += validate.check_name(draft.jobset)\n",
            before="    draft.errors += validate.check_jobs(",
        ),
        Edit(
            "tests/cases.py",
            '    Case("P26", jobset("administrators", rj("a"), mode="Gang"), rejected=("metadata.name",)),\n',
            before='    Case("P12", ',
        ),
    ),
    "annotation": (
        Edit("gangctl/api/meta.py", 'GANG_OWNER: Final = "gangctl.dev/gang-owner"\n', before="QUEUE_NAME: Final"),
        Edit(
            "gangctl/api/meta.py",
            "    Key(GANG_OWNER, KeyRole.CONFIGURATION),\n",
            after="    Key(GANGS, KeyRole.CONFIGURATION),\n",
        ),
        Edit("gangctl/gang/config.py", _OWNER, before="    options = _NO_OPTIONS\n    if (text :="),
        Edit("gangctl/gang/config.py", "GANG_OWNER, ", after="import GANG_MODE, GANG_OPTIONS, "),
        Edit(
            "docs/reference/annotations.md",
            "| a | `gangctl.dev/gang-owner` | a JobSet | any text | who asks for the gang |\n",
            before="| a | `gangctl.dev/gang-options` |",
        ),
        Edit(
            "tests/cases.py",
            '    Case("P27", jobset("js", annotations={"gangctl.dev/gang-owner": ""}), rejected=("gang-owner",)),\n',
            before='    Case("P12", ',
        ),
    ),
    "cause": (
        Edit("gangctl/gang/reasons.py", '    DISK_FULL = "DiskFull"\n', after='    CRASH_LOOP = "CrashLoop"\n'),
        Edit("gangctl/readiness/causes/pods.py", _FINDER, before="def troubles(context: Context)"),
        Edit("gangctl/readiness/causes/__init__.py", "    pods.full_disks,\n", before="    pods.troubles,\n"),
        Edit("gangctl/readiness/causes/__init__.py", "Reason.DISK_FULL, ", after='("containers fail", ('),
        Edit("tests/readiness/causes/test_pod_causes.py", _CAUSE_TESTS, before="def test_pods_without_gates_are_not"),
        Edit("tests/cli/gangs/stored_situations.py", _SITUATION, before="def deleted(*finalizers: str)"),
        Edit(
            "docs/reference/events.md",
            "| `DiskFull` | Warning | why | a disk is full | ask for more; "
            "[runbook](../runbooks/GangContainersFailing.md) |\n",
            before="| `CrashLoop` | Warning | why |",
        ),
        Edit("manifests/monitoring/rules/gangs.yaml", "|DiskFull", after='reason=~"ContainerConfigError|CrashLoop'),
        Edit(
            "docs/runbooks/GangContainersFailing.md",
            "- `DiskFull`: ask for more ephemeral-storage.\n",
            before="- `CrashLoop`: the program fails.",
        ),
        Edit("docs/runbooks/GangContainersFailing.md", "|DiskFull", after='reason=~"ContainerConfigError|CrashLoop'),
    ),
    "metric": (
        Edit("gangctl/manager/metrics.py", _METRIC, before="    lag = Histogram("),
        Edit(
            "tests/manager/metricspage.py",
            '    "gangctl_shards": "1",\n',
            before='    "gangctl_stranded_gangs_evicted_total"',
        ),
        Edit("tests/manager/metricspage.py", '"gangctl_shards", ', before='"gangctl_leader_election_master_status",'),
    ),
    "alert": (
        Edit("manifests/monitoring/rules/gangs.yaml", _RULE, before="      - alert: GangPartiallyPlaced\n"),
        Edit("tests/monitoring/cases_gangs.py", _CASES, after="CASES: Final = (\n"),
        Edit("docs/runbooks/GangWaitsLong.md", _RUNBOOK),
    ),
    "column": (
        Edit(
            "gangctl/cli/queue/report.py",
            '    waiting: Annotated[bool, "Whether any Workload waits."]\n',
            before="    oldest: Annotated[str,",
        ),
        Edit("gangctl/cli/queue/report.py", '"WAITING", ', before='"MESSAGE")'),
        Edit(
            "gangctl/cli/queue/report.py",
            '        str(report["waiting"]),\n',
            after='        _age(report["oldest"], now),\n        ",".join(used),\n',
        ),
        Edit(
            "gangctl/cli/queue/view.py", '            "waiting": bool(pending),\n', before='            "oldest": min('
        ),
    ),
    "cel-function": (
        Edit(
            "gangctl/cel/declarations/kubernetes.py",
            "    Quantity::mul(int) -> Quantity\n",
            before="    Quantity::sub(Quantity) -> Quantity\n",
        ),
        Edit("gangctl/cel/library/quantity.py", _TIMES, before="def _integer(quantity: Quantity)"),
        Edit(
            "gangctl/cel/library/quantity.py",
            '    method("mul", _times, _KIND, "int"),\n',
            before='    method("sub", _subtracted, _KIND, _KIND),\n',
        ),
        Edit("tests/parity/libraries.py", f'    "products": ("{_PRODUCT}",),\n', before='    "addresses": (\n'),
        Edit("docs/cel.md", f"{len(cases()) + 1} expressions", instead_of=f"{len(cases())} expressions"),
        Edit("docs/cel.md", " `mul`", after="`quantity` `isQuantity` `sign` `add`"),
        # What a server answers that has the function; that of Kubernetes does not.
        Edit("tests/parity/recorded.json", f'  "{_PRODUCT}": ["true", ""],\n', after="{\n"),
    ),
    "machine-type": (
        Edit(
            "gangctl/pathways/accelerators.py",
            '    "ct6e-standard-2t": "1x2",\n',
            after="_ONE_VM: Final[Mapping[str, str]] = {\n",
        ),
        Edit(
            "gangctl/pathways/accelerators.py",
            '    MachineType("v6e", "ct6e-standard-2t", "tpu-v6e-slice", "tpuv6e", 2, 1, 2),\n',
            after='    MachineType("v6e", "ct6e-standard-8t", "tpu-v6e-slice", "tpuv6e1t", 8, 1, 2),\n',
        ),
        Edit(
            "tests/pathways/accelerators/test_table.py",
            '    ("ct6e-standard-2t", "tpu-v6e-slice", "tpuv6e", 2, 1),\n',
            after='    ("ct6e-standard-1t", "tpu-v6e-slice", "tpuv6e", 1, 1),\n',
        ),
        Edit(
            "tests/cli/pathways/test_accelerators.py",
            ', "ct6e-standard-2t"',
            after='for name in ("ct6e-standard-4t", "ct6e-standard-1t", "ct6e-standard-8t"',
        ),
    ),
    "chart-value": (
        Edit(
            "charts/gangctl/values.schema.json",
            '    "hostNetwork": {"description": "Network of the node.", "type": "boolean", "default": false},\n',
            before='    "affinity": {',
        ),
        Edit(
            "tests/manifests/chart.py",
            '    pod["hostNetwork"] = Choice(".Values.hostNetwork", _value("hostNetwork"))\n',
            after='    pod["priorityClassName"] = Choice(".Values.priorityClassName", _text("priorityClassName"))\n',
        ),
        Edit(
            "tests/manifests/test_chart_values.py",
            '            "hostNetwork": True,\n',
            before='            "imagePullSecrets": [{"name": "registry"}],\n',
        ),
    ),
    "command": (
        Edit(
            "gangctl/cli/version.py",
            '@click.option("--short", is_flag=True, help="Print the numbers alone.")\n',
            before='@options.output(TABLE, "yaml", "json")',
        ),
        Edit(
            "gangctl/cli/version.py",
            "def version(*, client: bool, short: bool, form",
            instead_of="def version(*, client: bool, form",
        ),
        Edit(
            "gangctl/cli/version.py",
            '        click.echo(__version__ if short else f"Client Version: v{__version__}")\n',
            instead_of='        click.echo(f"Client Version: v{__version__}")\n',
        ),
    ),
    "setting": (
        Edit("gangctl/manager/settings.py", _SETTING, before="    leader_elect: bool = Field("),
        Edit(
            "gangctl/manager/wiring.py",
            "namespaces=settings.metrics_namespace_limit, ",
            before="gangs=settings.metrics_jobset_limit",
        ),
        Edit(
            "tests/manager/test_settings.py",
            '        ({"metrics_namespace_limit": -1}, ["metrics-namespace-limit", "greater than or equal to 0"]),\n',
            before='        ({"workers": 0}, ',
        ),
    ),
    "check": (
        Edit("gangctl/cli/doctor/checks/jobset.py", _CHECK, after='is served", *evidence)\n'),
        Edit("tests/cli/doctor/test_checks.py", _CHECK_CASES, before='    Case("jobset-api", {"jobset_versions": ()}'),
        Edit(
            "docs/doctor.md",
            "| `jobset-version` | Is the newest version of JobSets served? | Install a newer JobSet. |\n",
            before="| `jobset-controller` |",
        ),
    ),
    "gang-option": (
        Edit(
            "gangctl/gang/config.py",
            '    owner: str = Field(default="", description="Who asks for the gangs.")\n',
            before="    composite: bool =",
        ),
        Edit("tests/gang/test_options.py", '"owner", ', after="ON_EVERY_MINOR: Final = {"),
        Edit("tests/gang/test_config.py", '"owner":"me",', before='"composite":true}\''),
        Edit("tests/gang/test_config.py", "owner, ", before='composite" in mistakes'),
        Edit("docs/reference/annotations.md", "`owner`, ", before="`composite` | options of its gangs"),
        Edit("README.md", "`owner`, ", before="`composite` |"),
    ),
    "policy": (
        Copy(
            "policies/ttl-required",
            "policies/ttl-wanted",
            (("ttl-required", "ttl-wanted"), ("Finished JobSets are deleted", "Finished JobSets go")),
        ),
        Edit("policies/components/cost/kustomization.yaml", "  - ../../ttl-wanted\n", after="  - ../../ttl-required\n"),
    ),
    "page": (
        Edit("docs/notes.md", "# Notes\n\nAfter this page you know that pages are found.\n"),
        Edit("docs/README.md", "| notes | [notes](notes.md) |\n", before="| alerts, one page each |"),
        Edit("mkdocs.yml", "      - notes.md\n", before="      - runbooks/break-glass.md\n"),
    ),
}
"""By the name of the row."""
