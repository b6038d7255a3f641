package sniffer

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

// stub is a framework of which only what a test gives is there.
type stub struct {
	framework.Framework
	preFilter *fwk.Status
	narrowed  *preFilterResult
	filter    map[string]*fwk.Status
	scores    []nodePluginScores
	bind      *fwk.Status
}

func (s *stub) RunPreFilterPlugins(
	context.Context, fwk.CycleState, *v1.Pod,
) (*preFilterResult, *fwk.Status, sets.Set[string]) {
	return s.narrowed, s.preFilter, sets.New("NodeAffinity")
}

func (s *stub) RunFilterPluginsWithNominatedPods(
	_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	return s.filter[node.Node().Name]
}

func (s *stub) RunPreScorePlugins(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (s *stub) RunScorePlugins(
	context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo,
) ([]nodePluginScores, *fwk.Status) {
	return s.scores, nil
}

func (s *stub) RunBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return s.bind
}

func node(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return info
}

func pod(name string) *v1.Pod {
	meta := metav1.ObjectMeta{Namespace: "lab", Name: name, UID: "uid-1"}
	return &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{SchedulerName: "sniffer"}}
}

// listening is a plugin whose facts stay in its buffer.
func listening(topK int) *Plugin {
	return &Plugin{scheduler: "sniffer", topK: topK, sender: &sender{facts: make(chan *pb.Fact, 100)}}
}

func (p *Plugin) told() []*pb.Fact {
	var found []*pb.Fact
	for len(p.sender.facts) > 0 {
		found = append(found, <-p.sender.facts)
	}
	return found
}

func attempted(name string) *framework.QueuedPodInfo {
	return &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod(name)}, Attempts: 2}
}

func scored(name string, fit, image int64) nodePluginScores {
	scores := []pluginScore{{Name: "NodeResourcesFit", Score: fit}, {Name: "ImageLocality", Score: image}}
	return nodePluginScores{Name: name, Scores: scores, TotalScore: fit + image}
}

func TestEveryAnswerOfThePluginsIsPassedOnAsItIs(t *testing.T) {
	refusal := fwk.NewStatus(fwk.Unschedulable, "too small").WithPlugin("NodeResourcesFit")
	inner := &stub{
		filter: map[string]*fwk.Status{"b": refusal},
		scores: []nodePluginScores{scored("a", 1, 2), scored("c", 3, 4)},
		bind:   fwk.NewStatus(fwk.Skip),
	}
	seen := newCycle(inner, 5)
	ctx, subject := context.Background(), pod("p")
	if status := seen.RunFilterPluginsWithNominatedPods(ctx, nil, subject, node("b")); status != refusal {
		t.Errorf("Filter: %v", status)
	}
	if status := seen.RunFilterPluginsWithNominatedPods(ctx, nil, subject, node("a")); status != nil {
		t.Errorf("Filter: %v", status)
	}
	if found, _ := seen.RunScorePlugins(ctx, nil, subject, nil); &found[0] != &inner.scores[0] {
		t.Error("Score: another list")
	}
	if status := (&observed{inner, listening(5)}).RunBindPlugins(ctx, nil, subject, "a"); status != inner.bind {
		t.Errorf("Bind: %v", status)
	}
}

func TestAnAttemptIsToldWithReasonsPerPluginAndTheBestScores(t *testing.T) {
	small := fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin("NodeResourcesFit")
	tainted := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "untolerated taint").WithPlugin("TaintToleration")
	inner := &stub{
		filter: map[string]*fwk.Status{"d": small, "e": small, "f": small, "g": small, "h": tainted},
		scores: []nodePluginScores{scored("a", 10, 0), scored("b", 50, 5), scored("c", 50, 5)},
	}
	plugin := listening(2)
	seen := newCycle(inner, plugin.topK)
	ctx, info := context.Background(), attempted("p")
	seen.RunPreFilterPlugins(ctx, nil, info.Pod)
	for _, name := range strings.Split("abcdefgh", "") {
		seen.RunFilterPluginsWithNominatedPods(ctx, nil, info.Pod, node(name))
	}
	seen.RunPreScorePlugins(ctx, nil, info.Pod, nil)
	seen.RunScorePlugins(ctx, nil, info.Pod, nil)
	seen.tell(plugin, info, scheduler.ScheduleResult{SuggestedHost: "c", EvaluatedNodes: 8, FeasibleNodes: 3}, nil)

	facts := plugin.told()
	if len(facts) != 2 || facts[0].Kind != pb.Kind_FILTER || facts[1].Kind != pb.Kind_SCORE {
		t.Fatalf("told: %v", facts)
	}
	filter, score := facts[0], facts[1]
	if filter.Candidates != 8 || filter.Feasible != 3 || filter.Attempt != 2 || filter.Uid != "uid-1" {
		t.Errorf("filter: %v", filter)
	}
	first := filter.Counts[0]
	if first.Plugin != "NodeResourcesFit" || first.Reason != "Insufficient cpu" || first.Nodes != 4 {
		t.Errorf("the first count: %v", first)
	}
	if names := strings.Join(first.Examples, ""); names != "def" {
		t.Errorf("examples: %s", names)
	}
	if filter.Counts[1].Plugin != "TaintToleration" || filter.Counts[1].Nodes != 1 {
		t.Errorf("the second count: %v", filter.Counts[1])
	}
	if score.Node != "c" || len(score.Scores) != 2 || score.Scores[0].Node != "b" || score.Scores[0].Total != 55 {
		t.Errorf("score: %v", score)
	}
	if given := score.Scores[0].Plugins; given[0].Plugin != "NodeResourcesFit" || given[0].Score != 50 {
		t.Errorf("per plugin: %v", given)
	}
}

func TestARefusalBeforeTheNodesIsToldAlone(t *testing.T) {
	status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no such claim").WithPlugin("VolumeBinding")
	plugin, info := listening(5), attempted("p")
	seen := newCycle(&stub{preFilter: status}, plugin.topK)
	seen.RunPreFilterPlugins(context.Background(), nil, info.Pod)
	seen.tell(plugin, info, scheduler.ScheduleResult{}, &framework.FitError{})
	facts := plugin.told()
	if len(facts) != 1 || facts[0].Kind != pb.Kind_PREFILTER || facts[0].Plugin != "VolumeBinding" {
		t.Fatalf("told: %v", facts)
	}
	if facts[0].Code != "UnschedulableAndUnresolvable" || facts[0].Reasons[0] != "no such claim" {
		t.Errorf("verdict: %v", facts[0])
	}
}

func TestNodesThatAPluginRuledOutBeforehandAreTold(t *testing.T) {
	plugin, info := listening(5), attempted("p")
	seen := newCycle(&stub{narrowed: &preFilterResult{NodeNames: sets.New("a", "b")}}, plugin.topK)
	seen.RunPreFilterPlugins(context.Background(), nil, info.Pod)
	seen.tell(plugin, info, scheduler.ScheduleResult{}, nil)
	facts := plugin.told()
	if facts[0].Kind != pb.Kind_PREFILTER || facts[0].Plugin != "NodeAffinity" || facts[0].Feasible != 2 {
		t.Fatalf("told: %v", facts)
	}
}

func TestAFailureTellsTheNodesThatNoPluginLookedAt(t *testing.T) {
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not among those asked for")
	known := map[string]*fwk.Status{"a": fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin("Fit")}
	fit := &framework.FitError{
		Pod: pod("p"), NumAllNodes: 5,
		Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewNodeToStatus(known, absent)},
	}
	fact := &pb.Fact{}
	explain(fact, fwk.NewStatus(fwk.Unschedulable).WithError(fit))
	if fact.Candidates != 5 || fact.Counts[0].Nodes != 4 || fact.Counts[1].Plugin != "Fit" {
		t.Fatalf("told: %v", fact)
	}
}

func TestAPodWithGatesDoesNotEnterTheQueue(t *testing.T) {
	plugin, gated := listening(5), pod("gated")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
	for _, each := range []*v1.Pod{gated, pod("free")} {
		if status := plugin.PreEnqueue(context.Background(), each); !status.IsSuccess() {
			t.Errorf("%s is held: %v", each.Name, status)
		}
	}
	if facts := plugin.told(); len(facts) != 1 || facts[0].Name != "free" || facts[0].Kind != pb.Kind_QUEUED {
		t.Fatalf("told: %v", facts)
	}
}

func TestArgumentsThatCannotBeAreRefusedWithASentence(t *testing.T) {
	for raw, want := range map[string]string{
		`{"buffer": 0}`:             "plugin Sniffer: buffer is 0",
		`{"topK": -1}`:              "topK is -1",
		`{"flushInterval": "0s"}`:   "flushInterval is 0s",
		`{"address": ""}`:           "address is empty",
		`{"flushInterval": "fast"}`: "cannot read its args",
	} {
		_, err := newPlugin(context.Background(), &runtime.Unknown{Raw: []byte(raw)}, "sniffer")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
