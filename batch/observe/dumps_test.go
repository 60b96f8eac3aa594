package observe

import (
	"strings"
	"testing"
)

func TestParseTableDumps(t *testing.T) {
	for text, want := range map[string]struct {
		fault       bool
		call, every int64
	}{"fault": {true, 0, 0}, "call=3": {false, 3, 0}, "every=50": {false, 0, 50},
		"fault,every=2,call=9": {true, 9, 2}} {
		got, err := ParseTableDumps(text)
		if err != nil || got.Fault != want.fault || got.Call != want.call || got.Every != want.every {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "faults", "call", "call=", "call=0", "call=-1", "every=x", "every=1.5", "fault,",
		"fault=1", "call=99999999999999999999"} {
		if _, err := ParseTableDumps(text); err == nil || !strings.Contains(err.Error(), "must be fault, call=N") {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
