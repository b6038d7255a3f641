package sniffer

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

// Tap is one scheduler's: it makes the plugins, and lets them see what the scheduler does.
type Tap struct {
	plugins map[string]*Plugin
}

// NewTap gives one without plugins.
func NewTap() *Tap {
	return &Tap{plugins: map[string]*Plugin{}}
}

// New is the factory to register: app.WithPlugin(sniffer.Name, tap.New).
func (t *Tap) New(ctx context.Context, args runtime.Object, handle frameworkHandle) (frameworkPlugin, error) {
	plugin, err := newPlugin(ctx, args, profileOf(handle))
	if err != nil {
		return nil, err
	}
	t.plugins[plugin.scheduler] = plugin
	return plugin, nil
}

// Attach lets the plugins see the cycles of their profiles. To be called between app.Setup and app.Run.
func (t *Tap) Attach(sched *scheduler.Scheduler) {
	t.attachQueue(sched)
	t.attachCycle(sched)
	t.attachFailure(sched)
	for name, plugin := range t.plugins {
		if inner, ok := sched.Profiles[name]; ok {
			plugin.permits = len(inner.ListPlugins().Permit.Enabled) > 0
			sched.Profiles[name] = &observed{Framework: inner, plugin: plugin}
		}
	}
}

func (t *Tap) of(pod *v1.Pod) *Plugin {
	return t.plugins[pod.Spec.SchedulerName]
}

func (t *Tap) attachQueue(sched *scheduler.Scheduler) {
	inner := sched.NextPod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := inner(logger)
		if info == nil || info.PodInfo == nil || info.Pod == nil {
			return info, err
		}
		if plugin := t.of(info.Pod); plugin != nil {
			plugin.tell(pb.Kind_DEQUEUED, info.Pod, func(fact *pb.Fact) {
				fact.Attempt = uint32(info.Attempts)
				fact.Took = time.Since(info.Timestamp).Nanoseconds()
			})
		}
		return info, err
	}
}

// attempt lets the profile of the pod see how `schedule` schedules it with a framework.
func (t *Tap) attempt(
	f framework.Framework, info *framework.QueuedPodInfo,
	schedule func(framework.Framework) (scheduler.ScheduleResult, error),
) (scheduler.ScheduleResult, error) {
	plugin := t.of(info.Pod)
	if plugin == nil {
		return schedule(f)
	}
	seen := newCycle(f, plugin.topK)
	result, err := schedule(seen)
	seen.tell(plugin, info, result, err)
	return result, err
}

// attachFailure is told before the scheduler deals with a failure, which puts the pod back into the queue.
func (t *Tap) attachFailure(sched *scheduler.Scheduler) {
	inner := sched.FailureHandler
	sched.FailureHandler = func(
		ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status,
		nominating *nominatingInfo, start time.Time,
	) {
		if plugin := t.of(info.Pod); plugin != nil {
			plugin.tell(pb.Kind_UNSCHEDULABLE, info.Pod, func(fact *pb.Fact) {
				verdict(fact, status)
				fact.Attempt = uint32(info.Attempts)
				fact.Took = time.Since(start).Nanoseconds()
				explain(fact, status)
			})
		}
		inner(ctx, f, info, status, nominating, start)
	}
}

// explain adds why the nodes were refused, where the failure is that no node fits. The message is the one of the
// pod's condition.
func explain(fact *pb.Fact, status *fwk.Status) {
	fact.Reasons = []string{status.Message()}
	var fit *framework.FitError
	if err := status.AsError(); !errors.As(err, &fit) {
		return
	}
	diagnosis := fit.Diagnosis
	refused := newTally()
	diagnosis.NodeToStatus.ForEachExplicitNode(refused.add)
	if absent := fit.NumAllNodes - diagnosis.NodeToStatus.Len(); absent > 0 {
		refused.addMany(diagnosis.NodeToStatus.AbsentNodesStatus(), absent)
	}
	fact.Candidates = uint32(fit.NumAllNodes)
	fact.Counts = refused.counts()
}
