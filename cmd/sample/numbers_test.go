package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/parameter/parametertest"
)

// runFlags gives "sample run" flags, and returns what is wrong with them.
func runFlags(args ...string) (*jobflags.Options, error) {
	var o jobflags.Options
	f := cli.NewFlags("run")
	o.Define(f)
	args = append(args, "--model", "m", "--input", "in.jsonl", "--output", "out")
	if err := f.Parse(args); err != nil {
		return &o, err
	}
	return &o, o.Prepare(f, nil)
}

// wantNumber compares a parameter that was given by a flag or in a config file with what must become of the value.
// wheres are what errors may begin with.
func wantNumber(t testing.TB, p *parameter.Parameter, text string, o *jobflags.Options, err error, wheres ...string) {
	t.Helper()
	want, value := parametertest.Want(p, text)
	got := reflect.ValueOf(p.At(&o.Spec.Sampling)).Elem().Interface()
	noSeed := p.Type() == parameter.Seed && want == parametertest.Absent && text == strconv.Itoa(parameter.NoSeed)
	switch {
	case noSeed && (err != nil || got != parameter.Defaults().Seed):
		t.Errorf("%s %q is %v, %v; want the default", p.Flag, text, got, err)
	case want == parametertest.Taken && (err != nil || got != value):
		t.Errorf("%s %q is %v, %v; want %v", p.Flag, text, got, err, value)
	case want != parametertest.Taken && !noSeed && err == nil:
		t.Errorf("%s %q is taken as %v", p.Flag, text, got)
	}
	if err == nil {
		return
	}
	said := cli.Message(err)
	named := slices.ContainsFunc(wheres, func(where string) bool { return strings.HasPrefix(said, where) })
	if !named || !whatToGive.MatchString(said) {
		t.Errorf("%s %q: the error %q names not where it is, %q, and what to give", p.Flag, text, said, wheres)
	}
}

// whatToGive is how errors say it.
var whatToGive = regexp.MustCompile(`must be|is not a (whole )?number|takes one value|is wanted`)

// Each numeric parameter as a flag and in a config file, at the ends of its range and at odd values.
func TestNumbersOfFlags(t *testing.T) {
	dir := t.TempDir()
	for p := range parametertest.Numbers() {
		if p.Flag == "" {
			continue
		}
		for _, text := range append(parametertest.Probes(p), "NaN", "Inf", "") {
			numberAsFlag(t, p, text)
			numberInConfig(t, dir, p, text)
		}
	}
}

// numberAsFlag gives a parameter by its flag.
func numberAsFlag(t testing.TB, p *parameter.Parameter, text string) {
	t.Helper()
	o, err := runFlags("--" + p.Flag + "=" + text)
	wantNumber(t, p, asFlag(p, text), o, err, "--"+p.Flag+" is ", "--"+p.Flag+": ", "run: --"+p.Flag+" is ")
}

// asFlag returns what a flag takes text for: integers have no point and no exponent there, and seeds no sign but that
// of -1.
func asFlag(p *parameter.Parameter, text string) string {
	if p.Type() != parameter.Number && strings.ContainsAny(text, ".e") ||
		p.Type() == parameter.Seed && strings.HasPrefix(text, "-") && text != strconv.Itoa(parameter.NoSeed) {
		return "no integer"
	}
	return text
}

// numberInConfig gives a parameter in a config file, whose numbers are those of YAML.
func numberInConfig(t testing.TB, dir string, p *parameter.Parameter, text string) {
	t.Helper()
	config := filepath.Join(dir, "job.yaml")
	yaml := text
	switch text {
	case "NaN":
		yaml = ".nan"
	case "Inf":
		yaml = ".inf"
	case `"1"`, "[1]": // as a flag's text, and as a flag given once
		text = "1"
	case "2.0", "-0.0":
		text = text[:len(text)-2]
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, "%s: %s\n", p.Flag, yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := runFlags("--config", config)
	wantNumber(t, p, asFlag(p, text), o, err, config+":1: "+p.Flag, "run: --"+p.Flag+" is ")
}

// FuzzNumbersOfFlags gives any text as a numeric parameter: a value in its range, or an error that names the flag.
func FuzzNumbersOfFlags(f *testing.F) {
	var params []*parameter.Parameter
	for p := range parametertest.Numbers() {
		if p.Flag == "" {
			continue
		}
		for _, text := range parametertest.Probes(p) {
			f.Add(uint8(len(params)), text)
		}
		params = append(params, p)
	}
	f.Fuzz(func(t *testing.T, at uint8, text string) {
		p := params[int(at)%len(params)]
		o, err := runFlags("--" + p.Flag + "=" + text)
		got := reflect.ValueOf(p.At(&o.Spec.Sampling)).Elem().Interface()
		switch {
		case err == nil && !parametertest.Allows(p, got):
			t.Errorf("--%s %q is taken as %v", p.Flag, text, got)
		case err != nil && !strings.Contains(cli.Message(err), "--"+p.Flag):
			t.Errorf("--%s %q: the error %q does not name it", p.Flag, text, err)
		}
	})
}
