//go:build !kube134

package sniffer

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Where Kubernetes 1.36 has what this package uses; kube134.go says the same of 1.34.
type (
	frameworkPlugin    = fwk.Plugin
	frameworkHandle    = fwk.Handle
	nodePluginScores   = fwk.NodePluginScores
	nodeToStatusReader = fwk.NodeToStatusReader
	nominatingInfo     = fwk.NominatingInfo
	pluginScore        = fwk.PluginScore
	postFilterResult   = fwk.PostFilterResult
	preEnqueuePlugin   = fwk.PreEnqueuePlugin
	preFilterResult    = fwk.PreFilterResult
)

func profileOf(handle frameworkHandle) string { return handle.ProfileName() }

func (t *Tap) attachCycle(sched *scheduler.Scheduler) {
	inner := sched.SchedulePod
	sched.SchedulePod = func(
		ctx context.Context, f framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo,
	) (scheduler.ScheduleResult, error) {
		return t.attempt(f, info, func(seen framework.Framework) (scheduler.ScheduleResult, error) {
			return inner(ctx, seen, state, info)
		})
	}
}

// RunPermitPlugins is told only where a profile has such plugins.
func (o *observed) RunPermitPlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) (map[string]time.Duration, *fwk.Status) {
	waits, status := o.Framework.RunPermitPlugins(ctx, state, pod, node)
	o.permit(pod, node, waits, status)
	return waits, status
}
