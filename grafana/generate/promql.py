"""Parts of PromQL queries, in Grafana's variables.

Every selector names the cluster, the job and the instance, so that one Prometheus can hold several of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangctl.gang.reasons import Reason

RATE: Final = "$__rate_interval"
SHOWN: Final = "$__range"
"""All of the time that the dashboard shows."""

_TARGET: Final = ('cluster=~"$cluster"', 'job=~"$job"', 'instance=~"$instance"')
_REPLICA: Final = "gangctl_build_info"
"""Each process of gangctl exports one, and no other process does."""
_KUEUE: Final = ('cluster=~"$cluster"', 'job=~"$kueue_job"')
_OUR_WEBHOOKS: Final = 'name=~".+[.]gangctl[.]dev"'
_QUEUE: Final = ('namespace=~"$namespace"', 'local_queue=~"$local_queue"', 'cluster_queue=~"$cluster_queue"')
_GANG: Final = ('namespace="$namespace"', 'jobset="$jobset"')

UNINTENDED: Final = f'reason!="{Reason.SUSPENDED}"'
"""Matches gangs that are held back and that no user has suspended: no alert is about those, either."""

GANG_KEY: Final = "cluster, job, instance, namespace, jobset"
"""What the series of one gang have in common."""

_OWN: Final = {
    "gangctl_fit_verdicts": ("namespace", "local_queue", "cluster_queue", "verdict"),
    "gangctl_gang_pods": ("namespace", "local_queue", "cluster_queue", "state"),
    "gangctl_gang_stranded_pods": ("namespace", "local_queue", "cluster_queue"),
    "gangctl_gangs": ("namespace", "local_queue", "cluster_queue", "phase"),
    "gangctl_gangs_blocked": ("namespace", "local_queue", "cluster_queue", "reason"),
    "gangctl_guarantee_lost_gangs": ("namespace", "cause"),
}
"""Labels of the gauges that count gangs, without those of the process that exports them."""

Selector = Callable[[str], str]


def target(metric: str, *matchers: str) -> str:
    """A selector for what the scraped process says of itself or of the whole cluster."""
    return f"{metric}{{{', '.join((*_TARGET, *matchers))}}}"


def of_gangctl(metric: str, apply: Callable[[str], str] = str) -> str:
    """A family that every process exports, or a function of it, of gangctl's own: by default all jobs are chosen."""
    return f"{apply(target(metric))} and on (cluster, job, instance) {target(_REPLICA)}"


def or_zero_if_scraped(query: str) -> str:
    """Zero where there is nothing, but only while a gangctl is scraped."""
    return f"{query} or {replicas()} * 0"


def replicas() -> str:
    """How many replicas are scraped; nothing where none is."""
    return f"count({target(_REPLICA)})"


def queue(metric: str, *matchers: str) -> str:
    """A selector for a family with namespace, local_queue and cluster_queue."""
    return target(metric, *_QUEUE, *matchers)


def cluster_queue(metric: str, *matchers: str) -> str:
    """A selector for a family that knows the ClusterQueue only."""
    return target(metric, _QUEUE[2], *matchers)


def namespace(metric: str, *matchers: str) -> str:
    """A selector for a family that knows the namespace only."""
    return target(metric, _QUEUE[0], *matchers)


def gang(metric: str, *matchers: str) -> str:
    """A selector for the one gang of the dashboard."""
    return target(metric, *_GANG, *matchers)


def kueue(metric: str, *matchers: str) -> str:
    """A selector for a family of Kueue, of the ClusterQueues of the dashboard."""
    return f"{metric}{{{', '.join((*_KUEUE, _QUEUE[2], *matchers))}}}"


def kueue_preempting(metric: str) -> str:
    """A selector for a family of Kueue that names the ClusterQueue that preempts."""
    return f"{metric}{{{', '.join((*_KUEUE, f'preempting_{_QUEUE[2]}'))}}}"


def api_server(metric: str, *matchers: str) -> str:
    """A selector for what API servers say of gangctl's webhooks; whatever their job is called."""
    return f"{metric}{{{', '.join((_TARGET[0], _OUR_WEBHOOKS, *matchers))}}}"


def total(by: str, inner: str) -> str:
    """The sum by some labels, or of everything."""
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def gangs(by: str, metric: str, *matchers: str) -> str:
    """How many gangs or pods there are, by some labels.

    While leadership moves, two replicas may export the same gangs: each is counted once.
    """
    select = queue if "local_queue" in _OWN[metric] else namespace
    return total(by, most(", ".join(("cluster", *_OWN[metric])), select(metric, *matchers)))


def without(label: str, inner: str) -> str:
    """The sum over the values of one label."""
    return f"sum without ({label}) ({inner})"


def most(by: str, inner: str) -> str:
    """The maximum by some labels, or of everything: for what every replica exports alike."""
    return f"max by ({by}) ({inner})" if by else f"max({inner})"


def replicated(by: str, inner: str, beside: str = "") -> str:
    """The sum by some labels of what the replicas of a cluster export alike, in series with the labels ``beside``."""
    return total(by, most(", ".join(filter(None, ("cluster", by, beside))), inner))


def least(by: str, inner: str) -> str:
    """The minimum by some labels, or of everything."""
    return f"min by ({by}) ({inner})" if by else f"min({inner})"


def joined(labels: str, left: str, right: str) -> str:
    """The series of gangs on the left, with these labels of the series of the same gangs on the right, which are 1."""
    return f"{left} * on ({GANG_KEY}) group_left ({labels}) {right}"


def in_an_hour(selector: str) -> str:
    """What counters gained in the last hour, together."""
    return f"sum(increase({selector}[1h]))"


def some(query: str) -> str:
    """Without what is zero."""
    return f"{query} > 0"


def rate(selector: str) -> str:
    """What a counter gains a second."""
    return f"rate({selector}[{RATE}])"


def increase(selector: str, over: str = RATE) -> str:
    """What a counter gains in a step; with ``SHOWN`` in all of the time shown."""
    return f"increase({selector}[{over}])"


def quantile(share: float, by: str, buckets: str, over: str = RATE) -> str:
    """A quantile of a histogram; ``buckets`` selects its ``_bucket`` series."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({buckets}[{over}])))"


def mean(by: str, metric: str, select: Selector, over: str = RATE) -> str:
    """The mean of a histogram."""
    sums, counts = select(f"{metric}_sum"), select(f"{metric}_count")
    return f"{total(by, f'increase({sums}[{over}])')} / {total(by, f'increase({counts}[{over}])')}"


def age(by: str, timestamps: str) -> str:
    """Seconds since the earliest of some timestamps."""
    return f"time() - {least(by, timestamps)}"


def until(timestamps: str, by: str = "") -> str:
    """Seconds until the earliest of some timestamps; 0 is none."""
    return f"{least(by, some(timestamps))} - time()"


def or_zero(query: str) -> str:
    """Zero where there is nothing, but only while somebody leads: without a leader nothing is known."""
    return f"{query} or (sum({target('gangctl_leader_election_master_status')}) > 0) * 0"


def shards_led(condition: str) -> str:
    """How many shards have so many leaders as the condition says; nothing where no gangctl is scraped."""
    leaders = total("cluster, shard", target("gangctl_shard_leader_election_master_status"))
    return f"count({leaders} {condition}) or count({leaders}) * 0"
