from __future__ import annotations

from gangctl.cel.check import check
from gangctl.cel.environments import admission
from gangctl.cel.limits import profile_of
from gangctl.cel.meter import StepMeter
from gangctl.cel.program import compile_expression
from tests.rows import each

JOBSET = {
    "metadata": {"name": "js", "labels": {f"label-{number}": "value" for number in range(20)}},
    "spec": {
        "replicatedJobs": [
            {
                "name": f"rj{number}",
                "replicas": 4,
                "template": {
                    "containers": [{"image": "registry.example.com/a", "memory": "64Gi"} for _ in range(20)],
                },
            }
            for number in range(20)
        ]
    },
}


@each(
    "text",
    [
        "object.spec.replicatedJobs.all(r, r.replicas * 2 <= 1000 && r.name != 'x' || false)",
        "has(object.metadata.labels) && 'label-3' in object.metadata.labels",
        "object.spec.replicatedJobs.all(r, r.template.containers.all(c, c.image.matches('^registry[.]')))",
        "object.spec.replicatedJobs.all(r, r.template.containers.all(c, quantity(c.memory) == quantity('64Gi')))",
        "object.spec.replicatedJobs.filter(r, r.replicas > 1).map(r, r.name).size() == 20",
        "object.metadata.labels.all(k, v, k.size() < 64 && v.size() < 64)",
        "object.spec.replicatedJobs.map(r, [r.name, r.?zone.orValue('a')]).all(pair, pair[1] == 'a' ? true : false)",
        "object.spec.replicatedJobs.all(r, object.spec.replicatedJobs.exists_one(other, other.name == r.name))",
        "'%s-%d'.format([object.metadata.name, size(object.spec.replicatedJobs)]) == 'js-20'",
        "timestamp('2026-01-01T00:00:00Z') + duration('24h') > timestamp('2026-01-01T10:00:00Z')",
    ],
)
def test_an_expression_takes_no_more_steps_than_its_profile_allows(text: str) -> None:
    checked = check(text, admission())
    meter = StepMeter(10**9, 1.0, lambda: 0.0)
    assert compile_expression(checked).evaluate({"object": JOBSET}, {}, meter) is True
    assert 0 < meter.spent <= profile_of(checked).bound(20)
