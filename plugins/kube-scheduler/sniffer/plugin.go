// Package sniffer tells a recorder what a kube-scheduler decides, without a fork and without changing a decision.
//
// A Tap makes one Plugin for each profile in which "Sniffer" is enabled, and after the scheduler has been built
// (Attach) each sees its profile's cycles from the queue to the bound pod. The plugin itself implements one
// extension point only, PreEnqueue, and always lets the pod pass: which plugins filter, score and bind is what
// it would be without it. Nothing here may block a scheduling cycle.
package sniffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = "Sniffer"

// Args are the plugin's in a profile's pluginConfig.
type Args struct {
	// Address of the recorder, host:port.
	Address string `json:"address,omitempty"`
	// Buffer is how many facts wait for the recorder at most; what comes beyond is counted and thrown away.
	Buffer int `json:"buffer,omitempty"`
	// FlushInterval is how long a fact waits for others to be sent with.
	FlushInterval metav1.Duration `json:"flushInterval,omitempty"`
	// TopK is how many nodes of each attempt are told with their scores.
	TopK int `json:"topK,omitempty"`
}

// Defaults are what Args that are not given are.
func Defaults() Args {
	return Args{
		Address:       "127.0.0.1:4242",
		Buffer:        50_000,
		FlushInterval: metav1.Duration{Duration: 100 * time.Millisecond},
		TopK:          5,
	}
}

func (a Args) validate() error {
	switch {
	case a.Address == "":
		return errors.New("address is empty: name the recorder's host:port")
	case a.Buffer < 1:
		return fmt.Errorf("buffer is %d: at least one fact must have room", a.Buffer)
	case a.FlushInterval.Duration <= 0:
		return fmt.Errorf("flushInterval is %s: it must be longer than 0", a.FlushInterval.Duration)
	case a.TopK < 0:
		return fmt.Errorf("topK is %d: it cannot be negative", a.TopK)
	}
	return nil
}

// Plugin is one profile's.
type Plugin struct {
	scheduler string
	topK      int
	permits   bool
	sender    *sender
}

var _ preEnqueuePlugin = &Plugin{}

// newPlugin reads the arguments and begins to send.
func newPlugin(ctx context.Context, raw runtime.Object, profile string) (*Plugin, error) {
	args := Defaults()
	if err := frameworkruntime.DecodeInto(raw, &args); err != nil {
		return nil, fmt.Errorf("plugin %s: cannot read its args: %w", Name, err)
	}
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	sender, err := newSender(ctx, args)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: address %q: %w", Name, args.Address, err)
	}
	return &Plugin{scheduler: profile, topK: args.TopK, sender: sender}, nil
}

// Name is that of the registry.
func (p *Plugin) Name() string { return Name }

// PreEnqueue tells that the pod enters the queue, and lets it. A pod with scheduling gates does not enter: the
// framework asks the plugins of this point in any order, so the one that holds such pods may come later.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 {
		p.tell(pb.Kind_QUEUED, pod, nil)
	}
	return nil
}

// Close sends what is left, for at most a second. The scheduler calls it when it ends.
func (p *Plugin) Close() error {
	p.sender.close()
	return nil
}

// tell hands on a fact about a pod; `more` fills in what the kind has beyond it.
func (p *Plugin) tell(kind pb.Kind, pod *v1.Pod, more func(*pb.Fact)) {
	fact := &pb.Fact{
		At:        time.Now().UnixNano(),
		Kind:      kind,
		Namespace: pod.Namespace,
		Name:      pod.Name,
		Uid:       string(pod.UID),
		Scheduler: p.scheduler,
	}
	if more != nil {
		more(fact)
	}
	p.sender.put(fact)
}

// verdict puts a status into a fact; none is success.
func verdict(fact *pb.Fact, status *fwk.Status) {
	fact.Code = status.Code().String()
	if status != nil {
		fact.Plugin = status.Plugin()
		fact.Reasons = status.Reasons()
	}
}
