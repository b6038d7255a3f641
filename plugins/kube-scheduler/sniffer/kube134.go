//go:build kube134

package sniffer

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Where Kubernetes 1.34 has what this package uses; kube136.go says the same of 1.36.
type (
	frameworkPlugin    = framework.Plugin
	frameworkHandle    = framework.Handle
	nodePluginScores   = framework.NodePluginScores
	nodeToStatusReader = framework.NodeToStatusReader
	nominatingInfo     = framework.NominatingInfo
	pluginScore        = framework.PluginScore
	postFilterResult   = framework.PostFilterResult
	preEnqueuePlugin   = framework.PreEnqueuePlugin
	preFilterResult    = framework.PreFilterResult
)

// profileOf asks the framework, which every handle is.
func profileOf(handle frameworkHandle) string { return handle.(framework.Framework).ProfileName() }

// attachCycle takes the attempt from the queue: the scheduler names the pod alone, right after it took it from
// there, on the same goroutine.
func (t *Tap) attachCycle(sched *scheduler.Scheduler) {
	next, inner := sched.NextPod, sched.SchedulePod
	var info *framework.QueuedPodInfo
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		var err error
		info, err = next(logger)
		return info, err
	}
	sched.SchedulePod = func(
		ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod,
	) (scheduler.ScheduleResult, error) {
		return t.attempt(f, info, func(seen framework.Framework) (scheduler.ScheduleResult, error) {
			return inner(ctx, seen, state, pod)
		})
	}
}

// RunPermitPlugins is told only where a profile has such plugins. How long a pod may wait is not known here.
func (o *observed) RunPermitPlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) *fwk.Status {
	status := o.Framework.RunPermitPlugins(ctx, state, pod, node)
	waits := map[string]time.Duration{}
	if waiting := o.Framework.GetWaitingPod(pod.UID); waiting != nil && status.IsWait() {
		for _, plugin := range waiting.GetPendingPlugins() {
			waits[plugin] = 0
		}
	}
	o.permit(pod, node, waits, status)
	return status
}
