// Command kube-scheduler-sniffer-gang is kube-scheduler with the plugin Sniffer and one more plugin of somebody
// else's: what a main function looks like that adds the sniffer to a scheduler with plugins of its own.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"fairlead.dev/kube-scheduler-sniffer/command"
	"fairlead.dev/kube-scheduler-sniffer/gang"
)

func main() {
	os.Exit(cli.Run(command.New(app.WithPlugin(gang.Name, gang.New))))
}
