package sniffer

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

// observed is a profile's framework from the choice of the node on: it tells what came out and changes nothing.
type observed struct {
	framework.Framework
	plugin *Plugin
}

// outcome tells what an extension point said about a pod on a node.
func (o *observed) outcome(kind pb.Kind, pod *v1.Pod, node string, status *fwk.Status, begins time.Time) {
	o.plugin.tell(kind, pod, func(fact *pb.Fact) {
		verdict(fact, status)
		fact.Node = node
		fact.Took = time.Since(begins).Nanoseconds()
	})
}

// RunPostFilterPlugins looks for pods to preempt.
func (o *observed) RunPostFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes nodeToStatusReader,
) (*postFilterResult, *fwk.Status) {
	begins := time.Now()
	result, status := o.Framework.RunPostFilterPlugins(ctx, state, pod, nodes)
	node := ""
	if result != nil && result.NominatingInfo != nil {
		node = result.NominatingInfo.NominatedNodeName
	}
	o.outcome(pb.Kind_PREEMPT, pod, node, status, begins)
	return result, status
}

// RunReservePluginsReserve takes the node for the pod.
func (o *observed) RunReservePluginsReserve(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) *fwk.Status {
	begins := time.Now()
	status := o.Framework.RunReservePluginsReserve(ctx, state, pod, node)
	o.outcome(pb.Kind_RESERVE, pod, node, status, begins)
	return status
}

// RunReservePluginsUnreserve gives it back.
func (o *observed) RunReservePluginsUnreserve(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) {
	begins := time.Now()
	o.Framework.RunReservePluginsUnreserve(ctx, state, pod, node)
	o.outcome(pb.Kind_UNRESERVE, pod, node, nil, begins)
}

// permit tells what the plugins of that point said, where the profile has any: which wait, and how long at most.
func (o *observed) permit(pod *v1.Pod, node string, waits map[string]time.Duration, status *fwk.Status) {
	if !o.plugin.permits {
		return
	}
	o.plugin.tell(pb.Kind_PERMIT, pod, func(fact *pb.Fact) {
		verdict(fact, status)
		fact.Node = node
		for plugin, most := range waits {
			fact.Plugin = plugin
			fact.Took = max(fact.Took, most.Nanoseconds())
		}
	})
}

// WaitOnPermit is told only of pods that do wait.
func (o *observed) WaitOnPermit(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if !o.Framework.WillWaitOnPermit(ctx, pod) {
		return o.Framework.WaitOnPermit(ctx, pod)
	}
	begins := time.Now()
	status := o.Framework.WaitOnPermit(ctx, pod)
	o.outcome(pb.Kind_PERMITTED, pod, pod.Spec.NodeName, status, begins)
	return status
}

// RunBindPlugins writes the node into the pod.
func (o *observed) RunBindPlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) *fwk.Status {
	begins := time.Now()
	status := o.Framework.RunBindPlugins(ctx, state, pod, node)
	o.outcome(pb.Kind_BIND, pod, node, status, begins)
	return status
}

// RunPostBindPlugins ends a pod that has its node.
func (o *observed) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	begins := time.Now()
	o.Framework.RunPostBindPlugins(ctx, state, pod, node)
	o.outcome(pb.Kind_POSTBIND, pod, node, nil, begins)
}
