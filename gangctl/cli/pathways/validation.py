"""Result of checking a PathwaysJob: problems, notices, and whether its queue can ever admit it."""

from __future__ import annotations

from typing import Any

from gangctl.api.meta import API_VERSION
from gangctl.cli.fitting import FitSubject as Asked
from gangctl.cli.fitting import answer_of, fit_sections
from gangctl.cli.inputs import position
from gangctl.cli.messages import plural
from gangctl.cli.output import Section
from gangctl.cli.pathways.report import VALIDATION, PathwaysValidation, ProblemReport
from gangctl.cli.pathways.subjects import RenderedSubject
from gangctl.cli.quantities import with_quantities
from gangctl.cluster.stock import Stock
from gangctl.fit.report import FitReport
from gangctl.pathways.draft import head_requests_in_words
from gangctl.pathways.problems import Problem


def fit_of(subject: RenderedSubject, stock: Stock | None, queue: str | None, home: str) -> FitReport | None:
    """Whether its queue can admit it; None without known queues or with problems. ``home`` is the default namespace."""
    jobset = subject.translation.jobset
    if stock is None or subject.problems or jobset is None:
        return None
    namespace = subject.namespace or home
    asked = Asked(dict(subject.rendering.jobset), jobset.name, namespace, queue or jobset.queue)
    return answer_of(asked, stock, fixed_nodes=False).report


def validation_sections(subject: RenderedSubject, fit: FitReport | None) -> list[Section]:
    """What a person reads of one without problems."""
    job, rendering = subject.translation.job, subject.rendering
    assert job is not None  # noqa: S101 -- for mypy; it has been rendered
    size = f"{job.slices} x {job.slice.instance_type}"
    lines = (
        f"{size}, {plural(job.vms, 'worker pod')}",
        f"The head's pod requests {head_requests_in_words(rendering.head_requests)}.",
    )
    warnings = tuple(f"{notice.reason}: {notice.message}" for notice in subject.notices)
    valid = Section(f"PathwaysJob {subject.title}: valid", lines, warnings=warnings)
    return [valid, *(fit_sections(fit) if fit is not None else ())]


def validation_data(subject: RenderedSubject, fit: FitReport | None) -> dict[str, Any]:
    """What ``-o json`` prints."""
    report: PathwaysValidation = {
        "apiVersion": API_VERSION,
        "kind": VALIDATION,
        "metadata": {"name": subject.name, "namespace": subject.namespace},
        "valid": not subject.problems,
        "problems": [_problem(subject, problem) for problem in subject.problems],
        "notices": [
            {"reason": notice.reason.value, "message": notice.message, "warning": notice.is_warning}
            for notice in subject.notices
        ],
        "headRequests": {} if subject.problems else dict(subject.rendering.head_requests),
        "fit": fit,
    }
    return with_quantities(report, PathwaysValidation)


def _problem(subject: RenderedSubject, problem: Problem) -> ProblemReport:
    error = problem.error
    document = subject.document
    line, column = position(document, error.path) if document is not None else (0, 0)
    return {
        "file": document.source if document is not None else "",
        "line": line,
        "column": column,
        "path": error.path,
        "reason": problem.reason.value,
        "message": error.detail,
    }
