"""JobSets in which nearly everything is missing: their specs, None for no spec at all."""

from typing import Final

from tests.policies.pack import Object

_POD: Final = {"containers": [{"name": "main"}]}

ACCEPTED: Final[tuple[Object | None, ...]] = (
    None,
    {},
    {"replicatedJobs": []},
    {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": _POD}}}}]},
    {"replicatedJobs": [{"name": "a", "replicas": 0, "template": {"spec": {"template": {"spec": _POD}}}}]},
    {"replicatedJobs": [{"name": "a", "template": {"spec": {"parallelism": 0, "template": {"spec": _POD}}}}]},
)
"""An API server with JobSet's webhooks takes these."""

REFUSED: Final[tuple[Object | None, ...]] = (
    {"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]},
    {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}]},
    {"network": {}, "failurePolicy": {}, "successPolicy": {}, "startupPolicy": {}, "coordinator": {}},
)
"""These it refuses before any policy sees them; in files they are found."""
