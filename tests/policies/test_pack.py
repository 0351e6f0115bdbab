"""Every directory of the pack has a policy with a reason, tests and an example."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import yaml

from gangctl.cli.policy.suite import FILE_NAME, Expected
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.policy.model import GangPolicy
from gangctl.policy.reading import read_exception
from gangctl.policy.verdict import merge
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_policy_configurations
from gangctl.webhooks.policies import demand_of
from tests.manifests.files import documents
from tests.policies.evaluated import evaluated_by
from tests.policies.pack import NOTES, PACK, Shipped, native, shipped
from tests.policies.table import CATEGORIES, README, replace_table
from tests.rows import each

BROKEN = {Expected.FAIL, Expected.WARN}
FILES = {"README.md", "policy.yaml", "kustomization.yaml", "example.yaml", FILE_NAME, "resources"}
SECTIONS = ("## Why", "## Customize", "## Example")

every_policy = each("policy", shipped(), ids=lambda policy: policy.name)


@cache
def loaded() -> dict[str, LoadedPolicy]:
    """The policies of the pack by name."""
    return {policy.name: load_policy(policy.document) for policy in shipped()}


def test_the_pack_has_policies() -> None:
    assert len(shipped()) >= 18
    assert len(list(native())) >= 10


def test_every_directory_is_a_policy() -> None:
    directories = {path.name for path in PACK.iterdir() if path.is_dir()} - {"components"}
    assert directories == {policy.name for policy in shipped()}


@every_policy
def test_a_directory_has_its_files(policy: Shipped) -> None:
    found = {path.name for path in policy.home.iterdir()}
    assert found - {"params"} == FILES
    assert ("paramKind" in policy.spec) == ("paramRef" in policy.spec)
    assert not (policy.has_params_component and "paramKind" in policy.spec)


@every_policy
def test_a_policy_has_the_name_of_its_directory(policy: Shipped) -> None:
    assert policy.document["metadata"]["name"] == policy.name
    assert policy.document["kind"] == "GangPolicy"
    GangPolicy.model_validate(policy.document, strict=False)


@every_policy
def test_a_policy_has_its_annotations(policy: Shipped) -> None:
    notes = policy.annotations
    assert set(notes) == {f"{NOTES}{key}" for key in ("title", "category", "severity", "description")}
    assert notes[f"{NOTES}category"] in CATEGORIES
    assert notes[f"{NOTES}severity"] in {"low", "medium", "high"}
    assert len(notes[f"{NOTES}title"]) <= 60
    assert 40 <= len(notes[f"{NOTES}description"]) <= 240


def test_titles_and_rules_are_used_once() -> None:
    titles = Counter(policy.annotations[f"{NOTES}title"] for policy in shipped())
    assert max(titles.values()) == 1
    for policy in shipped():
        assert max(Counter(policy.rules).values()) == 1


# Whether it fits is computed from the queues of a cluster, which only the command that runs the test files is given.
@each("policy", [policy for policy in shipped() if not policy.reads("fit")], ids=lambda policy: policy.name)
def test_a_policy_warns_in_its_failing_tests(policy: Shipped) -> None:
    broken = [case for case in policy.cases if case.row.result in BROKEN and case.old is None]
    assert broken
    for case in broken:
        outcome = evaluated_by(loaded()[policy.name], case.resource, policy.params)
        verdict = merge([outcome])
        assert (verdict.allowed, bool(verdict.warnings)) == (True, True), case.name


def test_a_policy_has_failure_policy_ignore() -> None:
    pack = PolicySet(1, tuple(loaded().values()))
    settings = WebhookSettings(Endpoint(url="https://127.0.0.1:9443"))
    built = build_policy_configurations(settings, demand_of(pack), b"")
    hooks = [hook for configuration in built for hook in configuration["webhooks"]]
    assert [hook["failurePolicy"] for hook in hooks] == ["Ignore"]
    assert "CREATE" in hooks[0]["rules"][0]["operations"]


@every_policy
def test_is_about_jobsets_that_are_created(policy: Shipped) -> None:
    (rule,) = policy.spec["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == (["jobset.x-k8s.io"], ["jobsets"])
    assert rule["operations"][0] == "CREATE"
    if "UPDATE" in rule["operations"]:
        conditions = " ".join(each["expression"] for each in policy.spec["matchConditions"])
        assert "request.operation == 'CREATE'" in conditions, "an update of something else would be refused"
        assert "oldObject" in conditions


@every_policy
def test_every_rule_has_a_message_of_one_line(policy: Shipped) -> None:
    for rule in policy.spec["validations"]:
        assert rule["message"]
        assert "\n" not in rule["message"]


@every_policy
def test_every_rule_has_a_passing_and_a_failing_test_with_its_message(policy: Shipped) -> None:
    for rule in policy.rules:
        results = {row.result for row in policy.suite.results if row.rule == rule}
        assert Expected.PASS in results, rule
        assert results & BROKEN, rule
    assert all(row.message for row in policy.suite.results if row.result in BROKEN)
    assert {row.policy for row in policy.suite.results} == {policy.name}
    assert {row.rule for row in policy.suite.results} - {None} == set(policy.rules)


@every_policy
def test_every_resource_is_used(policy: Shipped) -> None:
    used = {case.resource["metadata"]["name"] for case in policy.cases}
    assert used == set(policy.resources)


@every_policy
def test_the_example_passes(policy: Shipped) -> None:
    name = policy.example["metadata"]["name"]
    assert {(each.row.rule, each.row.result) for each in policy.cases if each.resource["metadata"]["name"] == name} == {
        (None, Expected.PASS)
    }


@every_policy
def test_a_scan_finds_no_fault_with_an_example_that_kueue_has_started(policy: Shipped) -> None:
    started = {**policy.example, "spec": {**policy.example["spec"], "suspend": False}}
    scanned = loaded()[policy.name].spec.background
    assert not scanned or not evaluated_by(loaded()[policy.name], started, policy.params).violations


@every_policy
def test_the_readme_has_the_reason_and_a_denial_of_the_tests(policy: Shipped) -> None:
    text = (policy.home / "README.md").read_text()
    assert text.startswith(f"# {policy.annotations[f'{NOTES}title']}\n")
    places = [text.index(section) for section in SECTIONS]
    assert places == sorted(places)
    shown = re.findall(r"^ {4}GangPolicy '([^']+)' denied request: (.*)$", text, re.MULTILINE)
    assert shown
    assert set(shown) <= {(policy.name, row.message) for row in policy.suite.results if row.message}


def test_table_is_that_of_the_policies() -> None:
    assert README.read_text() == replace_table(README.read_text()), "python -m tests.policies.table"


@each("path", [README, *(policy.home / "README.md" for policy in shipped())], ids=str)
def test_links_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_exception_of_the_readme_is_valid() -> None:
    blocks = [yaml.safe_load(block.partition("```")[0]) for block in README.read_text().split("```yaml\n")[1:]]
    (exception,) = (block for block in blocks if block["kind"] == "GangPolicyException")
    names = {each.name: each.rules for each in read_exception(exception).spec.policies}
    for policy in shipped():
        assert set(names.pop(policy.name, ())) <= set(policy.rules)
    assert not names


def test_each_policy_is_in_the_component_of_its_category() -> None:
    for category in CATEGORIES:
        (component,) = documents(PACK / "components" / category.lower() / "kustomization.yaml")
        due = [f"../../{each.name}" for each in shipped() if each.annotations[f"{NOTES}category"] == category]
        assert component["resources"] == due
