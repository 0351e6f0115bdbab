"""``gangctl get``: from files, and the columns of a watch."""

from __future__ import annotations

from pathlib import Path

from gangctl.readiness.result import GangPhase
from tests.cli.conftest import Golden
from tests.cli.gangs import dump
from tests.cli.gangs.dump import NAMESPACE, RUNS, STUCK, WAITS, ask, ask_about
from tests.cli.gangs.place import place
from tests.cli.manifests import write
from tests.cli.publishedschemas import schema_of
from tests.cli.run import gangctl
from tests.cli.schema import answer_violations
from tests.jobsets import jobset, rj
from tests.rows import each

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_table_is_as_recorded(golden: Golden) -> None:
    answer = ask("get")
    assert (answer.code, answer.err) == (0, "")
    golden(GOLDEN / "gangs-get.txt", answer.out)


def test_json_is_a_list_of_gangs_and_of_a_name_the_gang() -> None:
    both = ask("get", "-o", "json").json
    assert ask("get", "--phase", "Ready", "-o", "json").json["items"] == both["items"][1:]
    assert (both["kind"], [each["kind"] for each in both["items"]]) == ("List", ["Gang", "Gang"])
    one = ask("get", RUNS, "-o", "json").json
    assert one == both["items"][1]
    assert (one["apiVersion"], one["status"]["phase"], one["status"]["ready"]) == (
        "gangctl.dev/v1alpha1",
        "Ready",
        "5/5",
    )


@each("place", [("get",), ("get", RUNS), ("get", "-n", "elsewhere"), ("why", WAITS), ("why", RUNS)])
def test_gangs_match_their_schema(place: tuple[str, ...]) -> None:
    answer = ask(*place, "-o", "json").json
    assert answer_violations(answer, schema_of("gang")) == []
    if answer["kind"] == "Gang":
        assert answer_violations({**answer, "details": {}}, schema_of("gang"))


def test_yaml_is_the_same() -> None:
    assert ask("get", "-o", "yaml").documents == [ask("get", "-o", "json").json]


def test_jsonpath_prints_fields() -> None:
    """What kubectl prints for the same flags."""
    assert ask("get", "-o", "jsonpath={.items[*].status.phase}").out == "Unschedulable Ready"
    assert ask("get", RUNS, "-o", "jsonpath={.status.phase}").out == "Ready"
    template = '{range .items[?(@.status.phase=="Ready")]}{.metadata.name}{"\\n"}{end}'
    assert ask("get", "-o", f"jsonpath={template}").out == f"{RUNS}\n"
    columns = ask("get", "-o", "custom-columns=NAME:.metadata.name,READY:status.ready,NONE:.status.nothing").out
    assert columns.splitlines() == [
        "NAME    READY   NONE",
        f"{WAITS}   0/6     <none>",
        f"{RUNS}   5/5     <none>",
    ]


def test_wide_output_and_no_headers_are_supported() -> None:
    narrow, wide = (ask("get", *flags, "--no-headers").out.splitlines() for flags in ((), ("-o", "wide")))
    assert [line.split()[1] for line in narrow] == [WAITS, RUNS]
    assert wide[0].startswith(narrow[0])
    assert "room for 3 of 6 pods" in wide[0]
    columns = ask("get", "--no-headers", "-o", "custom-columns=NAME:.metadata.name").out
    assert columns.splitlines() == [WAITS, RUNS]


@each(
    ("field", "names"),
    [
        (".metadata.name", [WAITS, RUNS]),
        ("{.status.ready}", [WAITS, RUNS]),
        (".status.phase", [RUNS, WAITS]),
        # What runs has no cause.
        (".status.causes[0].reason", [RUNS, WAITS]),
    ],
)
def test_gangs_are_sorted_by_a_field(field: str, names: list[str]) -> None:
    lines = ask("get", "--sort-by", field, "--no-headers").out.splitlines()
    assert [line.split()[1] for line in lines] == names
    assert [each["metadata"]["name"] for each in ask("get", "--sort-by", field, "-o", "json").json["items"]] == names


def test_names_are_printed() -> None:
    assert ask("get", RUNS, WAITS, "-o", "name").out.splitlines() == [
        f"gang.gangctl.dev/{RUNS}",
        f"gang.gangctl.dev/{WAITS}",
    ]


@each(
    ("phases", "names"),
    [(["Ready"], [RUNS]), (["unschedulable"], [WAITS]), (["Ready", "Unschedulable"], [WAITS, RUNS]), (["Failed"], [])],
)
def test_gangs_are_selected_by_phase(phases: list[str], names: list[str]) -> None:
    flags = [flag for phase in phases for flag in ("--phase", phase)]
    answer = ask("get", *flags, "-o", "name")
    assert answer.out.split() == [f"gang.gangctl.dev/{name}" for name in names]


def test_every_phase_is_a_choice() -> None:
    assert all(ask("get", "--phase", phase.value).code == 0 for phase in GangPhase)
    refused = ask("get", "--phase", "Happy")
    assert (refused.code, refused.out) == (2, "")
    assert all(phase.value in refused.err for phase in GangPhase)


@each(("selector", "count"), [("team=red", 1), ("team!=red", 1), ("team", 1), ("team in (red,blue)", 1), ("x=y", 0)])
def test_gangs_are_selected_by_label(selector: str, count: int, tmp_path: Path) -> None:
    found = dump.changed("JobSet", RUNS, lambda each: each["metadata"].update(labels={"team": "red"}))
    assert len(ask_about(tmp_path, found, "get", "-l", selector, "-o", "name").out.split()) == count


def test_gangs_are_selected_by_namespace() -> None:
    assert ask("get", "-n", NAMESPACE, "-o", "name").out.count("\n") == 2
    assert ask("get", "-A", "-o", "name").out.count("\n") == 2
    elsewhere = ask("get", "-n", "team-b")
    assert (elsewhere.code, elsewhere.out, elsewhere.err) == (0, "", "No gangs found in namespace team-b.\n")


class TestNames:
    def test_similar_names_are_suggested(self) -> None:
        answer = ask("get", "trian")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == 'error: jobsets.jobset.x-k8s.io "trian" not found\nhint: did you mean train?\n'

    def test_no_name_is_suggested_if_none_is_similar(self) -> None:
        assert "gangctl get -A lists all gangs" in ask("get", "xxxxxxxx").err

    def test_a_jobset_without_a_gang_is_reported(self, tmp_path: Path) -> None:
        plain = jobset("plain", rj("w"), uid="u-1", namespace=NAMESPACE)
        answer = ask_about(tmp_path, [*dump.objects(), plain], "get", "plain")
        assert (answer.code, answer.out) == (1, "")
        assert f"JobSet {NAMESPACE}/plain asks for no gang" in answer.err
        assert 'gangctl.dev/gang-mode: "Gang"' in answer.err
        assert "plain" not in ask_about(tmp_path, [*dump.objects(), plain], "get").out

    def test_jobsets_without_any_gang_give_a_note(self, tmp_path: Path) -> None:
        answer = ask_about(tmp_path, [jobset("plain", rj("w"), uid="u-1")], "get")
        assert (answer.code, answer.out) == (0, "")
        assert "note: 1 JobSet without a gang" in answer.err


class TestFiles:
    def test_files_are_read_from_stdin(self) -> None:
        text = "---\n".join(file.read_text(encoding="utf-8") for file in sorted(STUCK.glob("*.yaml")))
        answer = gangctl("get", "-f", "-", "--at", dump.AT, stdin=text)
        assert answer.out == ask("get").out

    def test_a_list_of_kubectl(self, tmp_path: Path) -> None:
        found = {"apiVersion": "v1", "kind": "List", "items": dump.objects()}
        assert ask_about(tmp_path, [found], "get").out == ask("get").out

    def test_other_kinds_are_skipped_with_a_note(self, tmp_path: Path) -> None:
        other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
        result = {"kind": "ComplianceCheckResult", "metadata": {"name": "r"}, "status": "PASS"}
        answer = ask_about(tmp_path, [*dump.objects(), other, result], "get")
        assert (answer.code, answer.err) == (0, "note: skipped 1 ComplianceCheckResult, 1 Service\n")

    def test_input_without_jobsets_is_an_error(self, tmp_path: Path) -> None:
        answer = ask_about(tmp_path, dump.objects("Pod"), "get")
        assert (answer.code, answer.out) == (2, "")
        assert "no JobSet in the files" in answer.err
        assert "kubectl get jobsets" in answer.err

    def test_a_jobset_without_a_uid_is_refused(self, tmp_path: Path) -> None:
        answer = ask_about(tmp_path, [jobset("new", rj("w"), mode="Gang")], "get")
        assert answer.code == 2
        assert "metadata.uid was never in a cluster" in answer.err
        assert "dump.yaml:1:1" in answer.err

    def test_all_errors_are_reported_at_once(self, tmp_path: Path) -> None:
        wrong: list[dump.Object] = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
            {"apiVersion": "v1", "kind": "Node", "spec": 1},
        ]
        answer = ask_about(tmp_path, [*dump.objects(), *wrong], "get")
        assert answer.code == 2
        assert "a Pod without metadata.name" in answer.err
        assert "spec: has the wrong type" in answer.err

    def test_an_invalid_jobset_is_refused(self, tmp_path: Path) -> None:
        found = dump.changed("JobSet", RUNS, lambda each: each["spec"].update(replicatedJobs="none"))
        answer = ask_about(tmp_path, found, "get")
        assert answer.code == 2
        assert f"JobSet {NAMESPACE}/{RUNS}: spec.replicatedJobs" in answer.err

    def test_the_same_name_in_two_namespaces_needs_a_namespace(self, tmp_path: Path) -> None:
        twins = [jobset("twin", rj("w"), mode="Gang", uid=f"u-{name}", namespace=name) for name in ("a", "b")]
        assert ask_about(tmp_path, twins, "get", "twin", "-o", "name").out.count("\n") == 2
        asked = ask_about(tmp_path, twins, "why", "twin")
        assert asked.code == 2
        assert "-n says which: a, b" in asked.err
        assert ask_about(tmp_path, twins, "why", "twin", "-n", "b", "-o", "json").json["metadata"]["namespace"] == "b"


@each(
    ("arguments", "reported"),
    [
        (("-n", "t", "-A", "-f", "x"), "excludes"),
        (("a", "-l", "b=c", "-f", "x"), "exclude"),
        (("a", "-A"), "names are of one namespace"),
        (("-f", "x", "--context", "c"), "stands in for a cluster"),
        (("--at", dump.AT), "--at is about files"),
        (("-f", "x", "-w"), "files do not change"),
        (("-w", "-o", "json"), "--watch prints a table"),
        (("-w", "--sort-by", ".metadata.name"), "--sort-by needs all gangs"),
        (("-o", "csv"), "there are table, wide, json, yaml, name, jsonpath=..., custom-columns=..."),
        (("-o", "jsonpath"), "jsonpath needs a template, such as jsonpath={.metadata.name}"),
        (("-o", "jsonpath={.metadata"), "a { without its }"),
        (("-o", "custom-columns=NAME"), "NAME:.metadata.name"),
        (("--sort-by", "{}"), "is no path such as .metadata.name"),
        (("-l", "(", "-f", "x"), "("),
        (("-n", "No_Name"), "not the name of a namespace"),
        (("-f", "nowhere.yaml"), "no such file"),
    ],
)
def test_bad_usage_is_exit_code_2(arguments: tuple[str, ...], reported: str) -> None:
    answer = gangctl("get", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert reported in answer.err


_HIGH: dump.Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1,
}


@each(
    ("but", "more"),
    [(["PodGroup", "Workload"], []), (["PodGroup", "Workload"], [_HIGH]), (["PodGroup"], [])],
    ids=("neither", "class", "workloads"),
)
def test_groups_absent_from_the_files_are_not_reported_as_missing(
    but: list[str], more: list[dump.Object], tmp_path: Path
) -> None:
    answer = ask_about(tmp_path, [*dump.objects(but=but), *more], "get", WAITS, "-o", "json")
    reasons = [cause["reason"] for cause in answer.json["status"]["causes"]]
    assert not {"PodGroupMissing", "NotGanged"} & set(reasons)


@each(
    ("but", "said"),
    [
        (["Job"], "the files have no Jobs, which count as missing"),
        (["Pod"], "the files have no pods, and phases follow from the status of JobSets"),
    ],
)
def test_members_absent_from_the_files_are_named(but: list[str], said: str, tmp_path: Path) -> None:
    # Of all namespaces: nodes have pods of them all. Of this API group: Volcano has PodGroups, Kueue has Workloads.
    kinds = "jobsets,jobs,pods,podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io,events,nodes"
    answer = ask_about(tmp_path, dump.objects(but=but), "get")
    assert answer.err.startswith(f"note: {said}: kubectl get {kinds} -A -o yaml\n")


def _without_pods(*, active: bool) -> list[dump.Object]:
    found = dump.objects(but=["Pod"])
    for raw in found:
        if raw["kind"] == "Job" and not active:
            raw["status"].pop("active", None)
    return found


@each(("active", "reason"), [(True, "Unknown"), (False, "PodsMissing")])
def test_pods_absent_from_the_files_are_missing_only_where_no_job_has_any(
    active: bool, reason: str, tmp_path: Path
) -> None:
    answer = ask_about(tmp_path, _without_pods(active=active), "why", WAITS, "-o", "json")
    assert [cause["reason"] for cause in answer.json["status"]["causes"]] == [reason]


def test_a_file_with_one_gang_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "one.yaml", *[each for each in dump.objects("JobSet") if each["metadata"]["name"] == RUNS])
    assert [each["metadata"]["name"] for each in gangctl("get", "-f", file, "-o", "json").json["items"]] == [RUNS]
    out_of_bounds = gangctl("get", "-f", file, "-o", "jsonpath={.items[3]}")
    assert (out_of_bounds.code, out_of_bounds.out) == (2, "")
    assert "[3] is out of bounds: the list has 1" in out_of_bounds.err
    nowhere = gangctl("get", "-f", file, "--sort-by", ".nowhere")
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "no object has .nowhere" in nowhere.err


async def test_a_wide_watch_has_the_columns_of_the_table(tmp_path: Path) -> None:
    columns = ask("get", "-o", "wide").out.splitlines()[0].split()
    async with place(tmp_path, dump.objects()) as here, here.running("get", "--watch", "-o", "wide") as watching:
        assert (await watching.line()).split() == columns


@each("words", [f"jobset {RUNS}", f"jobsets {RUNS}", f"jobsets.jobset.x-k8s.io {RUNS}", f"gang jobset/{RUNS}"])
def test_a_type_before_names_is_no_name(words: str) -> None:
    for verb in ("get", "describe", "why"):
        answer = ask(verb, *words.split(), "-o", "json")
        assert (answer.code, answer.json["metadata"]["name"]) == (0, RUNS), verb
    assert len(ask("get", "jobset", RUNS, WAITS, "-o", "json").json["items"]) == 2
    assert ask("describe", "jobset", RUNS, WAITS).code == 2


def test_a_single_word_is_a_name() -> None:
    answer = ask("get", "jobset")
    assert (answer.code, 'jobsets.jobset.x-k8s.io "jobset" not found' in answer.err) == (1, True)


async def test_get_has_the_phase_of_the_controller_where_that_remembers_more(tmp_path: Path) -> None:
    """A pod was replaced before it was ready: only the controller, which has seen it, knows."""
    found = dump.objects()
    new = max(dump.pods_of(found, RUNS), key=lambda pod: str(pod["metadata"]["name"]))
    new["metadata"]["creationTimestamp"] = "2026-11-21T15:09:30Z"
    new["status"]["conditions"] = [each for each in new["status"]["conditions"] if each["type"] == "PodScheduled"]
    owner = next(each["metadata"] for each in found if each["kind"] == "JobSet" and each["metadata"]["name"] == RUNS)
    gang = ask_about(tmp_path, found, "get", RUNS, "-o", "json").json
    assert gang["status"]["phase"] == "Degraded"
    for part in (gang["status"], *gang["status"]["groups"]):
        part["phase"] = "PartiallyReady"
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": RUNS, "uid": owner["uid"]}
    gang["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    command = ("get", RUNS, "-o", "jsonpath={.status.phase}")
    assert ask_about(tmp_path, [*found, gang], *command).out == "PartiallyReady"
    async with place(tmp_path, found, objects=True) as here:
        here.put([gang])
        assert (await here.ask(*command)).out == "PartiallyReady"
