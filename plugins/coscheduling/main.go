// Command kube-scheduler-sniffer-coscheduling is kube-scheduler 1.34 with the plugin Sniffer and with coscheduling
// of scheduler-plugins, which has no release for the Kubernetes that the sniffer is otherwise built with.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	// Coscheduling's arguments are read only with this.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	"fairlead.dev/kube-scheduler-sniffer/command"
)

func main() {
	os.Exit(cli.Run(command.New(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}
