// Command labkube is every program of a small Kubernetes cluster in one file: the first argument
// chooses which. One link step replaces seven, and they share most of their packages.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Each entry makes the command only when it is chosen, because making one registers its flags.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	chosen := ""
	if len(os.Args) > 1 {
		chosen = os.Args[1]
		os.Args = append([]string{chosen}, os.Args[2:]...)
	}
	switch chosen {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		build, known := programs[chosen]
		if !known {
			fmt.Fprintln(os.Stderr, "usage: labkube PROGRAM [ARGUMENT...]; PROGRAM is one of:", list())
			os.Exit(2)
		}
		os.Exit(cli.Run(build()))
	}
}

func list() string {
	names := []string{"etcd", "kubectl"}
	for name := range programs {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}
