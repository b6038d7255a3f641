// Package gang is about the smallest plugin that makes pods wait for each other. It is here so that a scheduler
// of several out-of-tree plugins is built and tested with the sniffer; it is no scheduler for gangs: what it
// lets wait keeps its node, and two gangs can wait for each other.
package gang

import (
	"context"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// Name is the plugin's name in a KubeSchedulerConfiguration.
	Name = "Gang"
	// Label names a pod's gang, SizeLabel says how many it has.
	Label     = "gang.example.com/name"
	SizeLabel = "gang.example.com/size"

	patience = time.Minute
)

// Plugin lets the members of a gang pass together.
type Plugin struct{ handle fwk.Handle }

var _ fwk.PermitPlugin = &Plugin{}

// New is the factory to register.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return &Plugin{handle}, nil
}

// Name is that of the registry.
func (p *Plugin) Name() string { return Name }

// Permit makes a member wait until it is the last one.
func (p *Plugin) Permit(
	_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string,
) (*fwk.Status, time.Duration) {
	name := pod.Labels[Label]
	if name == "" {
		return nil, 0
	}
	size, err := strconv.Atoi(pod.Labels[SizeLabel])
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, SizeLabel+" is not a number"), 0
	}
	var others []fwk.WaitingPod
	p.handle.IterateOverWaitingPods(func(waiting fwk.WaitingPod) {
		if other := waiting.GetPod(); other.Namespace == pod.Namespace && other.Labels[Label] == name {
			others = append(others, waiting)
		}
	})
	if len(others)+1 < size {
		return fwk.NewStatus(fwk.Wait, "waits for the rest of "+name), patience
	}
	for _, other := range others {
		other.Allow(Name)
	}
	return nil, 0
}
