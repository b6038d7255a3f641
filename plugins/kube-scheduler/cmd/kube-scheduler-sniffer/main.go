// Command kube-scheduler-sniffer is kube-scheduler with the plugin Sniffer, which a profile enables.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	"fairlead.dev/kube-scheduler-sniffer/command"
)

func main() {
	os.Exit(cli.Run(command.New()))
}
