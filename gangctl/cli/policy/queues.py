"""The variable ``fit`` for the command line: what queues of files or of a cluster say of a JobSet."""

from __future__ import annotations

from collections.abc import Callable

from gangctl.api.jobset import read_jobset
from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.objects import Object
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.policy.requests import Setting, namespace_object
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import Ask, fit
from gangctl.kueue.objects import QueuedWorkload
from gangctl.policy.match import labels_of

Fit = Callable[[Object, str], FitReport]


def fit_of(stock: Stock, setting: Setting) -> Fit:
    """Answers for JobSets that would be created beside what the files have."""
    snapshot = stock.snapshot()

    def answer(raw: Object, namespace: str) -> FitReport:
        labels = labels_of(namespace_object(namespace, setting)) | dict(stock.namespaces.get(namespace, {}))
        return fit(Ask(raw, namespace, labels, read_jobset(raw)[0].queue), snapshot)

    return answer


def fit_of_existing(stock: Stock) -> Fit:
    """Answers for JobSets of a cluster: what one holds itself is not in its way."""
    snapshot = stock.snapshot()
    held: dict[str, list[QueuedWorkload]] = {}
    for workload in stock.workloads():
        held.setdefault(workload.owner_uid, []).append(workload)

    def answer(raw: Object, namespace: str) -> FitReport:
        jobset, _ = read_jobset(raw)
        labels = stock.namespaces.get(namespace)
        known = None if labels is None else {NAMESPACE_NAME: namespace, **labels}
        with snapshot.without(held.get(jobset.uid, ()) if jobset.uid else ()):
            return fit(Ask(raw, namespace, known, jobset.queue, new=False), snapshot)

    return answer
