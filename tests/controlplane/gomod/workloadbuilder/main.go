// Workloadbuilder builds, for JobSets with spec.scheduling (KEP-969), the Workload and the PodGroups that Kubernetes'
// library of that name builds: the Job controller and JobSet use it for theirs. One JobSet a line on standard input,
// one answer a line on standard output.
//
// The library compiles one template from one item. Which pods are one item, how many they are and what it is called is
// decided by the controller that calls it: here by the rules of KEP-969.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"
)

var (
	jobSetKind = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}
	root       = field.NewPath("spec", "scheduling")
)

// jobSet has the fields of a JobSet that its gangs depend on. spec.scheduling is decoded strictly.
type jobSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Scheduling     json.RawMessage `json:"scheduling"`
		ReplicatedJobs []replicatedJob `json:"replicatedJobs"`
		StartupPolicy  struct {
			Order string `json:"startupPolicyOrder"`
		} `json:"startupPolicy"`
	} `json:"spec"`
}

type replicatedJob struct {
	Name      string                  `json:"name"`
	Replicas  *int32                  `json:"replicas"`
	Template  batchv1.JobTemplateSpec `json:"template"`
	DependsOn []struct{}              `json:"dependsOn"`
}

// blocks are the building blocks that every level of spec.scheduling has.
type blocks struct {
	Policy      *schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy      `json:"schedulingPolicy"`
	Constraints *schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints `json:"schedulingConstraints"`
	Disruption  *schedulingv1alpha3.WorkloadPodGroupDisruptionMode        `json:"disruptionMode"`
	Claims      []schedulingv1alpha3.WorkloadPodGroupResourceClaim        `json:"resourceClaims"`
}

type scheduling struct {
	blocks
	ReplicatedJobs []entry `json:"replicatedJobs"`
}

type entry struct {
	blocks
	Targets []string `json:"targetReplicatedJobs"`
	Job     *blocks  `json:"job"`
}

// item is one template and one group, with the Jobs whose pods are in it.
type item struct {
	template, group string
	path            *field.Path
	blocks          blocks
	priorityClass   string
	pods            int32
	jobs            []string
}

type answer struct {
	Workload  *schedulingv1beta1.Workload   `json:"workload,omitempty"`
	PodGroups []*schedulingv1beta1.PodGroup `json:"podGroups,omitempty"`
	Jobs      map[string]string             `json:"jobs,omitempty"`
	Errors    []string                      `json:"errors,omitempty"`
}

func orOne(value *int32) int32 {
	if value == nil {
		return 1
	}
	return *value
}

// podsPerJob is the KEP's number, and that of the Job controller: completions do not count.
func (rj replicatedJob) podsPerJob() int32 { return orOne(rj.Template.Spec.Parallelism) }

func (js *jobSet) jobs(rj replicatedJob) []string {
	names := make([]string, orOne(rj.Replicas))
	for index := range names {
		names[index] = fmt.Sprintf("%s-%s-%d", js.Name, rj.Name, index)
	}
	return names
}

func (js *jobSet) sequenced() bool {
	for _, rj := range js.Spec.ReplicatedJobs {
		if len(rj.DependsOn) > 0 {
			return true
		}
	}
	return js.Spec.StartupPolicy.Order == "InOrder"
}

// hashed is a name with the hash of what it is the name of; the JobSet's UID is not part of it.
func (js *jobSet) hashed(name, kind, identity string) string {
	hash := fmt.Sprintf("%x", sha1.Sum([]byte(kind+"/"+js.Namespace+"/"+identity)))[:10]
	return fmt.Sprintf("%.52s-%s", name, hash)
}

// share is the item of all Jobs of some ReplicatedJobs.
func (js *jobSet) share(name, kind string, path *field.Path, own blocks, members ...replicatedJob) item {
	template := js.hashed(name, kind, js.Name+"/"+name)
	it := item{template: template, group: js.Name + "-" + template, path: path, blocks: own}
	for _, rj := range members {
		it.pods += rj.podsPerJob() * orOne(rj.Replicas)
		it.jobs = append(it.jobs, js.jobs(rj)...)
	}
	if len(members) > 0 {
		it.priorityClass = members[0].Template.Spec.Template.Spec.PriorityClassName
	}
	return it
}

func (js *jobSet) items(scheduling scheduling) []item {
	var items []item
	if len(scheduling.ReplicatedJobs) == 0 && !js.sequenced() {
		whole := js.share(js.Name, "JobSet", root, scheduling.blocks, js.Spec.ReplicatedJobs...)
		whole.group = whole.template
		return []item{whole}
	}
	if len(scheduling.ReplicatedJobs) == 0 {
		for _, rj := range js.Spec.ReplicatedJobs {
			items = append(items, js.share(rj.Name, "ReplicatedJob", root, scheduling.blocks, rj))
		}
		return items
	}
	for position, entry := range scheduling.ReplicatedJobs {
		path := root.Child("replicatedJobs").Index(position)
		var members []replicatedJob
		for _, name := range entry.Targets {
			for _, rj := range js.Spec.ReplicatedJobs {
				if rj.Name == name {
					members = append(members, rj)
				}
			}
		}
		if entry.Job == nil {
			items = append(items, js.share(strings.Join(entry.Targets, "-"), "ReplicatedJobGroup", path, entry.blocks, members...))
			continue
		}
		for _, rj := range members {
			for index, job := range js.jobs(rj) {
				it := js.share(fmt.Sprintf("%s-%d", rj.Name, index), "Job", path.Child("job"), *entry.Job, rj)
				it.pods, it.jobs = rj.podsPerJob(), []string{job}
				items = append(items, it)
			}
		}
	}
	return items
}

func (it item) workloadItem() *workloadbuilder.WorkloadItem {
	gang := &workloadbuilder.SchedulingPolicy{Gang: &workloadbuilder.GangSchedulingPolicy{}}
	return &workloadbuilder.WorkloadItem{
		Name:          it.template,
		Path:          it.path,
		DefaultConfig: &workloadbuilder.SchedulingConfig{Policy: gang, PriorityClassName: it.priorityClass},
		Input: workloadbuilder.WorkloadInput{
			Policy:         workloadbuilder.PolicyInput{PodGroupData: it.blocks.Policy, PathElements: []string{"schedulingPolicy"}},
			Constraints:    workloadbuilder.ConstraintsInput{PodGroupData: it.blocks.Constraints, PathElements: []string{"schedulingConstraints"}},
			DisruptionMode: workloadbuilder.DisruptionModeInput{PodGroupData: it.blocks.Disruption, PathElements: []string{"disruptionMode"}},
			ResourceClaims: workloadbuilder.ResourceClaimsInput{PodGroupData: it.blocks.Claims, PathElements: []string{"resourceClaims"}},
		},
		Callbacks: []workloadbuilder.SchedulingConfigFunc{func(config *workloadbuilder.SchedulingConfig) {
			if gang := config.Policy.Gang; gang != nil && gang.MinCount == nil {
				gang.MinCount = &it.pods
			}
		}},
	}
}

func build(line []byte) (*answer, error) {
	var js jobSet
	if err := json.Unmarshal(line, &js); err != nil {
		return nil, err
	}
	var intent scheduling
	decoder := json.NewDecoder(bytes.NewReader(js.Spec.Scheduling))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&intent); err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	options := workloadbuilder.BuildOptions{
		Name:                   js.hashed(js.Name, "JobSet", js.Name),
		Namespace:              js.Namespace,
		Owner:                  metav1.NewControllerRef(&js, jobSetKind),
		AllowedPolicies:        []workloadbuilder.SchedulingPolicyOption{workloadbuilder.BasicPolicy, workloadbuilder.GangPolicy},
		AllowedDisruptionModes: []workloadbuilder.DisruptionModeOption{workloadbuilder.SingleMode, workloadbuilder.AllMode},
	}
	built := &answer{Jobs: map[string]string{}}
	items := js.items(intent)
	for _, it := range items {
		builder := workloadbuilder.NewBuilder(it.workloadItem(), options)
		for _, problem := range builder.Validate(context.Background(), workloadbuilder.ValidationInput{}) {
			built.Errors = append(built.Errors, problem.Error())
		}
		workload, err := builder.BuildWorkload()
		if err != nil {
			return nil, err
		}
		if built.Workload == nil {
			built.Workload = workload
			continue
		}
		templates := &built.Workload.Spec.PodGroupTemplates
		*templates = append(*templates, workload.Spec.PodGroupTemplates...)
	}
	if most := schedulingv1beta1.WorkloadMaxPodGroupTemplates; len(items) > most {
		built.Errors = append(built.Errors, field.TooMany(root, len(items), most).Error())
	}
	groups := workloadbuilder.NewBuilderFromExistingWorkload(built.Workload, options)
	for _, it := range items {
		group, err := groups.NewPodGroup(it.group, it.template)
		if err != nil {
			return nil, err
		}
		built.PodGroups = append(built.PodGroups, group)
		for _, job := range it.jobs {
			built.Jobs[job] = it.group
		}
	}
	return built, nil
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return
		}
		built, problem := build(line)
		if problem != nil {
			built = &answer{Errors: []string{problem.Error()}}
		}
		if failed := answers.Encode(built); failed != nil {
			log.Fatal(failed)
		}
		if err != nil {
			return
		}
	}
}
