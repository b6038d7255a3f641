package sniffer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

const examples = 3

// cycle is a profile's framework for one attempt at one pod: it notes what the plugins say and changes nothing.
type cycle struct {
	framework.Framework
	topK int

	preFilter     *fwk.Status
	narrowed      []string
	preFilterNode int
	preFilterTook time.Duration

	fits         atomic.Int64
	refused      *tally
	filterBegins time.Time

	scores     []*pb.NodeScore
	scoreTook  time.Duration
	filterTook time.Duration
}

func newCycle(inner framework.Framework, topK int) *cycle {
	return &cycle{Framework: inner, topK: topK, refused: newTally()}
}

// RunPreFilterPlugins comes first, once.
func (c *cycle) RunPreFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod,
) (*preFilterResult, *fwk.Status, sets.Set[string]) {
	begins := time.Now()
	result, status, by := c.Framework.RunPreFilterPlugins(ctx, state, pod)
	c.preFilter = status
	if !result.AllNodes() {
		c.narrowed = sets.List(by)
		c.preFilterNode = len(result.NodeNames)
	}
	c.filterBegins = time.Now()
	c.preFilterTook = c.filterBegins.Sub(begins)
	return result, status, by
}

// RunFilterPluginsWithNominatedPods is called for many nodes at once.
func (c *cycle) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	status := c.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	if status.IsSuccess() {
		c.fits.Add(1)
	} else {
		c.refused.add(node.Node().Name, status)
	}
	return status
}

// RunPreScorePlugins begins the scoring.
func (c *cycle) RunPreScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) *fwk.Status {
	c.filterTook = time.Since(c.filterBegins)
	begins := time.Now()
	status := c.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
	c.scoreTook = time.Since(begins)
	return status
}

// RunScorePlugins gives the scores, normalised and weighted.
func (c *cycle) RunScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) ([]nodePluginScores, *fwk.Status) {
	begins := time.Now()
	found, status := c.Framework.RunScorePlugins(ctx, state, pod, nodes)
	c.scoreTook += time.Since(begins)
	c.scores = best(found, c.topK)
	return found, status
}

// tell makes the facts of the attempt.
func (c *cycle) tell(
	plugin *Plugin, info *framework.QueuedPodInfo, result scheduler.ScheduleResult, failure error,
) {
	attempt := uint32(info.Attempts)
	if !c.preFilter.IsSuccess() || c.preFilterNode > 0 {
		plugin.tell(pb.Kind_PREFILTER, info.Pod, func(fact *pb.Fact) {
			verdict(fact, c.preFilter)
			if len(c.narrowed) > 0 {
				fact.Plugin = strings.Join(c.narrowed, ",")
			}
			fact.Attempt, fact.Feasible = attempt, uint32(c.preFilterNode)
			fact.Took = c.preFilterTook.Nanoseconds()
		})
	}
	if c.filterBegins.IsZero() || !c.preFilter.IsSuccess() {
		return
	}
	if c.filterTook == 0 {
		c.filterTook = time.Since(c.filterBegins)
	}
	plugin.tell(pb.Kind_FILTER, info.Pod, func(fact *pb.Fact) {
		fact.Attempt = attempt
		fact.Feasible = uint32(c.fits.Load())
		fact.Counts = c.refused.counts()
		fact.Candidates = fact.Feasible + uint32(c.refused.nodes)
		fact.Took = c.filterTook.Nanoseconds()
		fact.Code = fwk.Success.String()
		if failure != nil {
			fact.Code = fwk.Unschedulable.String()
		}
	})
	if len(c.scores) > 0 && failure == nil {
		plugin.tell(pb.Kind_SCORE, info.Pod, func(fact *pb.Fact) {
			fact.Node, fact.Attempt, fact.Scores = result.SuggestedHost, attempt, c.scores
			fact.Candidates, fact.Feasible = uint32(result.EvaluatedNodes), uint32(result.FeasibleNodes)
			fact.Took = c.scoreTook.Nanoseconds()
			fact.Code = fwk.Success.String()
		})
	}
}

// best gives the k nodes of the highest totals, best first and by name where they are equal.
func best(all []nodePluginScores, k int) []*pb.NodeScore {
	var top []nodePluginScores
	order := func(a, b nodePluginScores) int {
		return cmp.Or(cmp.Compare(b.TotalScore, a.TotalScore), cmp.Compare(a.Name, b.Name))
	}
	for _, each := range all {
		place, _ := slices.BinarySearchFunc(top, each, order)
		if place == k {
			continue
		}
		top = slices.Insert(top[:min(len(top), k-1)], place, each)
	}
	found := make([]*pb.NodeScore, 0, len(top))
	for _, each := range top {
		node := &pb.NodeScore{Node: each.Name, Total: each.TotalScore}
		for _, score := range each.Scores {
			node.Plugins = append(node.Plugins, &pb.PluginScore{Plugin: score.Name, Score: score.Score})
		}
		found = append(found, node)
	}
	return found
}

// tally counts refused nodes by plugin and reason.
type tally struct {
	mutex sync.Mutex
	nodes int
	found map[why]*pb.Count
}

type why struct{ plugin, reason string }

func newTally() *tally {
	return &tally{found: map[why]*pb.Count{}}
}

func (t *tally) add(node string, status *fwk.Status) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	count := t.count(status, 1)
	if len(count.Examples) < examples {
		count.Examples = append(count.Examples, node)
	}
}

// addMany is for nodes that are not named.
func (t *tally) addMany(status *fwk.Status, nodes int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.count(status, nodes)
}

func (t *tally) count(status *fwk.Status, nodes int) *pb.Count {
	t.nodes += nodes
	key := why{reason: status.Code().String()}
	if message := status.Message(); message != "" {
		key = why{status.Plugin(), message}
	}
	count := t.found[key]
	if count == nil {
		count = &pb.Count{Plugin: key.plugin, Reason: key.reason}
		t.found[key] = count
	}
	count.Nodes += uint32(nodes)
	return count
}

// counts gives them in order: the most nodes first.
func (t *tally) counts() []*pb.Count {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	found := make([]*pb.Count, 0, len(t.found))
	for _, each := range t.found {
		slices.Sort(each.Examples)
		found = append(found, each)
	}
	slices.SortFunc(found, func(a, b *pb.Count) int {
		return cmp.Or(
			cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Reason, b.Reason),
		)
	})
	return found
}
