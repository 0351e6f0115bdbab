"""``gangctl pathways accelerators``: TPU types, and the meaning of a name.

The schema is published (``docs/pathways-accelerators.schema.json``): every key is always present.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypedDict

import click

from gangctl.api.meta import API_VERSION
from gangctl.cli import options
from gangctl.cli.messages import plural
from gangctl.cli.output import Listing, ListItem, Section, print_answer
from gangctl.errors import InputError
from gangctl.pathways import accelerators as tpus
from gangctl.pathways.problems import InvalidReason, RefusedValueError
from gangctl.pathways.words import GKE_ACCELERATOR, GKE_TOPOLOGY

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


KIND: Final = "Accelerator"


class MachineTypeIdentity(TypedDict):
    """Which machine type."""

    name: str


class SliceReport(TypedDict):
    """A slice of one topology."""

    topology: str
    chips: int
    vms: Annotated[int, "VMs, which are nodes and worker pods."]
    instanceType: Annotated[str, "As the resource manager takes it."]
    allowedWith: Annotated[list[Literal["flags", "PathwaysJob"]], "Who may ask for it."]


class AcceleratorReport(TypedDict):
    """A machine type, with the slice that was asked for."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["Accelerator"]
    metadata: MachineTypeIdentity
    generation: Annotated[str, "Of TPUs, such as v5p."]
    families: Annotated[list[str], "Names of the generation, as in device types such as v5p-8."]
    machineType: str
    label: Annotated[str, "Of nodes, under cloud.google.com/gke-tpu-accelerator."]
    key: Annotated[str, "What Pathways calls it."]
    chipsPerVM: int
    coresPerChip: Annotated[int, "TensorCores, the unit of names such as v5p-8."]
    nodeSelector: Annotated[dict[str, str], "Labels of its nodes, of those with the slice that was asked for."]
    topologies: Annotated[list[str], "That flags may ask for, ascending by chips: XPK's rule."]
    pathwaysJobTopologies: Annotated[list[str], "That a PathwaysJob may ask for; none where it lacks the machine type."]
    slice: Annotated[SliceReport | None, "Null where no topology was asked for."]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Names of accelerators, and sizes after a family was typed."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

    typed = incomplete.lower()
    family = typed.partition("-")[0]
    sizes = tpus.device_types(family) if family in tpus.FAMILIES and "-" in typed else {}
    known = {name: row.machine_type for name, row in tpus.names().items()} | dict(sizes)
    return [CompletionItem(name, help=meaning) for name, meaning in known.items() if name.startswith(typed)]


def complete_topology(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Topologies of the accelerator that has been named."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

    # click does not parse arguments if the option being typed has no value yet.
    named = ctx.params.get("name") or " ".join(ctx.args)
    try:
        accelerator, _ = tpus.find(named)
    except RefusedValueError:
        return []
    return [
        CompletionItem(topology)
        for topology in tpus.topologies(accelerator, strict=False)
        if topology.startswith(incomplete.lower())
    ]


@click.command("accelerators")
@click.argument("name", required=False, shell_complete=complete_name)
@click.option("--topology", metavar="TOPOLOGY", shell_complete=complete_topology, help="Of a slice, such as 2x2x4.")
@options.listing("table", "json", "yaml", "name")
@options.colour
def command(*, name: str | None, topology: str | None, listing: Listing) -> None:
    """List TPU types, or say what a name stands for.

    NAME is a device type (v5p-8, v5p-2x2x1), a machine type, a node label of GKE, a family or
    Pathways' own key. Case does not matter. Sizes of device types are XPK's: v5p-8 is eight
    TensorCores, which are four chips. -o name prints the key alone, with a topology as the
    resource manager gets it.

    \b
    Examples:
      gangctl pathways accelerators
      gangctl pathways accelerators v5p-128
      gangctl pathways accelerators ct6e-standard-8t --topology 2x4 -o name
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if name is None:
        if topology is not None:
            raise click.UsageError("--topology needs the NAME of an accelerator")
        reports = [_report(accelerator, None) for accelerator in tpus.ACCELERATORS]
    else:
        reports = [_named(name, topology)]
    if listing.form == "name":
        for shown in dict.fromkeys(map(_shortest, reports)):
            click.echo(shown)
    elif name is None:
        listing.print(_HEADERS, [_entry(report) for report in reports], legend=_LEGEND)
    else:
        print_answer(listing.form, reports, lambda: _described(reports[0]), headers=listing.headers)


def _named(name: str, topology: str | None) -> AcceleratorReport:
    """The meaning of a name; InputError if it is unknown."""
    try:
        accelerator, named = tpus.find(name)
        if named and topology is not None and tpus.slice_of(accelerator, topology, strict=False).topology != named:
            raise click.UsageError(f"{name} is {named} already: leave --topology out, or name a family")
        return _report(accelerator, named or topology)
    except RefusedValueError as refused:
        unknown = refused.reason is InvalidReason.UNKNOWN_ACCELERATOR
        hint = "gangctl pathways accelerators lists all machine types" if unknown else ""
        raise InputError(refused.detail, hint=hint) from refused


def _report(accelerator: tpus.MachineType, topology: str | None) -> AcceleratorReport:
    """A machine type with a slice of it; RefusedValueError if flags do not support it: a PathwaysJob has no more."""
    tpu_slice = None if topology is None else tpus.slice_of(accelerator, topology, strict=False)
    row = accelerator if tpu_slice is None else tpu_slice.accelerator
    selector = {GKE_ACCELERATOR: row.label}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": row.machine_type},
        "generation": row.generation,
        "families": [family for family, generation in tpus.FAMILIES.items() if generation == row.generation],
        "machineType": row.machine_type,
        "label": row.label,
        "key": row.key,
        "chipsPerVM": row.chips_per_vm,
        "coresPerChip": row.cores_per_chip,
        "nodeSelector": selector if tpu_slice is None else {**selector, GKE_TOPOLOGY: tpu_slice.topology},
        "topologies": list(tpus.topologies(row, strict=False)),
        "pathwaysJobTopologies": list(tpus.topologies(row, strict=True)),
        "slice": None if tpu_slice is None else _slice_report(accelerator, tpu_slice),
    }


def _slice_report(asked: tpus.MachineType, found: tpus.Slice) -> SliceReport:
    """A slice, and the sources that support it for the named machine type."""
    allowed: list[Literal["flags", "PathwaysJob"]] = []
    if found.topology in tpus.topologies(asked, strict=False):
        allowed.append("flags")
    if found.topology in tpus.topologies(asked, strict=True):
        allowed.append("PathwaysJob")
    return {
        "topology": found.topology,
        "chips": found.chips,
        "vms": found.vms,
        "instanceType": found.instance_type,
        "allowedWith": allowed,
    }


def _shortest(report: AcceleratorReport) -> str:
    return report["slice"]["instanceType"] if report["slice"] is not None else report["key"]


_HEADERS: Final = (
    *("FAMILY", "MACHINE-TYPE", "CHIPS/VM", "CORES/CHIP", "KEY"),
    *("FLAG-TOPOLOGIES", "PATHWAYSJOB-TOPOLOGIES", "LABEL"),
)
_LEGEND: Final = "FLAG-TOPOLOGIES and PATHWAYSJOB-TOPOLOGIES: how many topologies flags and PathwaysJobs may ask for."


def _entry(report: AcceleratorReport) -> ListItem:
    """A machine type in the list."""
    row = (
        "/".join(report["families"]),
        report["machineType"],
        str(report["chipsPerVM"]),
        str(report["coresPerChip"]),
        report["key"],
        str(len(report["topologies"])),
        str(len(report["pathwaysJobTopologies"])),
        report["label"],
    )
    return ListItem(report, row)


def _described(report: AcceleratorReport) -> list[Section]:
    """One machine type, with its slice or its topologies."""
    selector = [("node selector", f"{key}: {value}") for key, value in report["nodeSelector"].items()]
    rows = [
        ("key", report["key"]),
        ("machine type", f"{report['machineType']}, {plural(report['chipsPerVM'], 'chip')} a VM"),
        ("generation", f"{report['generation']}, {plural(report['coresPerChip'], 'TensorCore')} a chip"),
        ("label", report["label"]),
        *selector,
    ]
    tpu_slice = report["slice"]
    if tpu_slice is None:
        rows += [("with flags", _flags_rule(report)), ("in a PathwaysJob", _counted(report["pathwaysJobTopologies"]))]
    else:
        rows += [
            (
                "slice",
                f"{tpu_slice['topology']}, {plural(tpu_slice['chips'], 'chip')} on {plural(tpu_slice['vms'], 'VM')}",
            ),
            ("may be asked for", " and ".join(_WHERE[place] for place in tpu_slice["allowedWith"])),
        ]
    return [Section(_shortest(report), tuple(f"{f'{what}:':<18} {value}" for what, value in rows))]


_WHERE: Final = {"flags": "with flags", "PathwaysJob": "in a PathwaysJob"}


def _flags_rule(report: AcceleratorReport) -> str:
    rule = tpus.rule_of(tpus.find(report["machineType"])[0])
    return f"{len(report['topologies'])}: {rule}" if rule else _counted(report["topologies"])


def _counted(allowed: list[str]) -> str:
    return f"{len(allowed)}: {' '.join(allowed)}" if allowed else "none"
