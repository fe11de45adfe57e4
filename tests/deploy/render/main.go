// Renders a Helm chart with the functions of Helm, for tests on machines without Helm.
//
//	render CHART [VALUES.yaml]
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

func read(path string) map[string]any {
	text, err := os.ReadFile(path)
	check(err)
	found := map[string]any{}
	check(yaml.Unmarshal(text, &found))
	return found
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// merge lays the values of a user over those of the chart.
func merge(under, over map[string]any) map[string]any {
	for name, value := range over {
		inner, ok := value.(map[string]any)
		known, both := under[name].(map[string]any)
		if ok && both {
			under[name] = merge(known, inner)
		} else {
			under[name] = value
		}
	}
	return under
}

func main() {
	chart := os.Args[1]
	meta := read(filepath.Join(chart, "Chart.yaml"))
	values := read(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 2 {
		values = merge(values, read(os.Args[2]))
	}
	root := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["include"] = func(name string, data any) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	root.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = root.New("templates/" + filepath.Base(file)).Parse(string(text))
		check(err)
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": meta["name"], "Version": meta["version"], "AppVersion": meta["appVersion"]},
		"Release": map[string]any{"Name": "shop", "Namespace": "sre", "Service": "Helm"},
		"Template": map[string]any{"BasePath": "templates"},
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".yaml") {
			var out bytes.Buffer
			check(root.ExecuteTemplate(&out, "templates/"+filepath.Base(file), data))
			fmt.Printf("---\n%s\n", out.String())
		}
	}
}
