"""One gang: its phase, its history, and what it waits for."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from gangctl.readiness.result import GangPhase
from grafana.generate import links, phases, promql
from grafana.generate.board import Board, Row, single, targets
from grafana.generate.panels import Query, State, graph, note, number, timeline

_INFO = "gangctl_gang_info"
_STATES = [State(index, phase.value, phases.COLORS[phase]) for index, phase in enumerate(GangPhase, 1)]
_HELD = [State(1, "yes", "orange")]


def board() -> Board:
    """The dashboard of a JobSet; the overview leads here."""
    namespaces = f'label_values({_INFO}{{cluster=~"$cluster", job=~"$job"}}, namespace)'
    jobsets = f'label_values({_INFO}{{cluster=~"$cluster", job=~"$job", namespace="$namespace"}}, jobset)'
    return Board(
        uid="gangctl-gang",
        title="gangctl / Gang detail",
        description="One JobSet: its phase, its pods, and what holds it back, now and before.",
        tags=("gangs",),
        variables=[
            *targets(_INFO),
            single("namespace", "Namespace", namespaces),
            single("jobset", "JobSet", jobsets),
        ],
        links=[links.to("gangctl-overview", "Gangs overview"), links.to("gangctl-queues", "Tenants and queues")],
        rows=[
            Row("What is it doing, and since when?", _now()),
            Row("How did it get here?", _history()),
            Row("Do its pods become ready?", _pods()),
            Row("What does gangctl say about it?", [_commands()]),
        ],
    )


def _phase_number() -> str:
    """In each cluster with such a JobSet, one series that is the number of the phase."""
    selected = (
        (number, promql.gang("gangctl_gang_status_phase", f'phase="{phase.label}"'))
        for number, phase in enumerate(GangPhase, 1)
    )
    return promql.most("cluster", " or ".join(f"{selector} * {number}" for number, selector in selected))


def _now() -> list[dashboard.Panel]:
    ready, wanted = promql.gang("gangctl_gang_ready_pods"), promql.gang("gangctl_gang_wanted_pods")
    return [
        number(
            "Phase",
            "How far the JobSet has come: the phase of the group that is least far. Empty if it is not followed, "
            "finished and deleted, or beyond the JobSets that have series of their own.",
            _phase_number(),
            unit="none",
            width=4,
            states=_STATES,
            nothing="not known",
        ),
        number(
            "For",
            "How long it has been in this phase.",
            promql.age("cluster", promql.gang("gangctl_gang_phase_timestamp_seconds")),
            unit="s",
            nothing="not known",
        ),
        number(
            "Most likely cause",
            "Why it is not ready; empty if there is nothing to explain. gangctl why says what to do about it.",
            promql.most("reason", promql.gang("gangctl_gang_status_reason")),
            unit="none",
            width=6,
            label="reason",
            nothing="nothing",
            links=[links.runbook("GangStuckPending"), links.runbook("GangGroupMissing")],
        ),
        number(
            "Ready pods",
            "Pods that are ready, of those that should exist now.",
            f"{promql.most('cluster', ready)} / ({promql.some(promql.most('cluster', wanted))})",
            unit="percentunit",
            nothing="no pods wanted",
        ),
        number("Wanted pods", "Pods that should exist now.", promql.most("cluster", wanted), unit="short", width=2),
        number(
            "Queue",
            "The LocalQueue it waits in or was admitted from; empty without one.",
            promql.most("local_queue", promql.gang(_INFO, 'local_queue!=""')),
            unit="none",
            label="local_queue",
            nothing="none",
            links=[links.to("gangctl-queues", "Tenants and queues")],
        ),
        number(
            "Level",
            "What is one gang: the JobSet, each ReplicatedJob, or each of its Jobs.",
            promql.most("level", promql.gang(_INFO)),
            unit="none",
            label="level",
        ),
    ]


def _history() -> list[dashboard.Panel]:
    return [
        timeline(
            "Phases",
            "The phases it went through. A gang that goes to and fro between two of them is evicted or preempted again "
            "and again, or crashes.",
            [Query(_phase_number(), "phase")],
            _STATES,
            height=4,
        ),
        timeline(
            "Most likely causes",
            "What was named as the most likely cause, and when. Several in turn usually have one reason behind them: "
            "look at the first.",
            [Query(promql.most("reason", promql.gang("gangctl_gang_status_reason")), "{{reason}}")],
            _HELD,
            height=6,
        ),
    ]


def _pods() -> list[dashboard.Panel]:
    return [
        graph(
            "Ready and wanted pods",
            "Ready pods against those that should exist. Ready pods below wanted ones for long is what a training run "
            "waits for; a drop after a flat line is a lost node, a preemption or a crash.",
            [
                Query(promql.most("cluster", promql.gang("gangctl_gang_wanted_pods")), "wanted"),
                Query(promql.most("cluster", promql.gang("gangctl_gang_ready_pods")), "ready"),
            ],
            unit="short",
            colors={"wanted": "orange", "ready": "green"},
            links=[links.runbook("GangDegraded")],
        ),
        graph(
            "Time in the phase",
            "Grows while it stays in one phase, and falls to zero at each change: teeth are a gang that does not "
            "settle.",
            [Query(promql.age("cluster", promql.gang("gangctl_gang_phase_timestamp_seconds")), "in this phase")],
            unit="s",
        ),
    ]


def _commands() -> dashboard.Panel:
    return note(
        "Ask gangctl",
        "Metrics carry one cause at most; the command line has all of them, with evidence and what to do.",
        "```\n"
        "gangctl why $jobset -n $namespace        # what holds it back, with evidence, and what to do\n"
        "gangctl describe $jobset -n $namespace   # its groups, pods and history\n"
        "gangctl wait $jobset -n $namespace       # until it is ready\n"
        "```\n",
        height=5,
    )
