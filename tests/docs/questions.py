"""What four people type into the site's search in their first hour, and the page that has to come first."""

from typing import Final

QUESTIONS: Final = {
    "install.html": ("install", "install with helm", "uninstall", "kustomize", "failurePolicy Ignore"),
    "cli.html": ("pipx", "krew plugin", "kubectl gang", "shell completion", "wheel"),
    "platforms.html": ("kind feature gate", "gke", "kubeadm", "eks"),
    "compatibility.html": ("supported kubernetes versions", "compatibility"),
    "security.html": ("permissions", "rbac rights", "secrets", "configmaps", "what is not granted"),
    "tenants.html": ("tenants", "who sees what", "resourcequota", "roles for teams"),
    "scaling.html": ("cost", "cpu and memory", "replicas", "shards", "how many jobsets"),
    "runbooks/break-glass.html": ("what if gangctl is down", "webhook down break glass", "jobsets are rejected"),
    "upgrades.html": ("upgrade kubernetes", "upgrade gangctl"),
    "troubleshooting.html": ("jobset does not start", "troubleshooting", "pods pending"),
    "runbooks/index.html": ("alert runbook",),
    "howto/monitoring.html": ("prometheus grafana",),
    "dashboards.html": ("dashboards",),
    "metrics.html": ("metrics reference",),
    "howto/jobsets.html": ("submit a jobset", "gang-mode"),
    "howto/several-gangs.html": ("several gangs",),
    "howto/trainjobs.html": ("trainjob",),
    "howto/policies.html": ("write a policy",),
    "fit.html": ("quota never fits",),
    "fit-nodes.html": ("fixed-nodes",),
    "howto/queues.html": ("share a cluster between teams",),
    "howto/migration.html": ("migrate from volcano",),
    "pathways.html": ("pathways tpu slice",),
    "reference/annotations.html": ("annotations", "labels"),
    "reference/events.html": ("event reasons",),
    "repository/CONTRIBUTING.html": ("contributing", "run the tests", "golden files"),
    "releasing.html": ("release",),
}
"""Questions by the page that answers them."""
