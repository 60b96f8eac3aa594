package traceformat_test

import (
	"strings"
	"testing"

	"github.com/quire/quire/internal/traceformat"
)

const names = `[{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"p"}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"t"}}`

func TestRead(t *testing.T) {
	good := names + `,
{"ph":"X","name":"inner","pid":1,"tid":1,"ts":2,"dur":1},
{"ph":"X","name":"outer","pid":1,"tid":1,"ts":1,"dur":5},
{"ph":"b","cat":"c","id":1,"name":"a","pid":1,"tid":0,"ts":3},
{"ph":"e","cat":"c","id":1,"name":"a","pid":1,"tid":0,"ts":3},
{"ph":"C","name":"n","pid":1,"tid":0,"ts":3,"args":{"v":1.5}}`
	for _, text := range []string{good, good + "\n]\n"} {
		if trace, err := traceformat.Read([]byte(text)); err != nil || len(trace.Events) != 7 ||
			len(trace.Named("X", "inner")) != 1 {
			t.Errorf("%v", err)
		}
	}
	for name, c := range map[string][2]string{
		"cut event":   {names + `,{"ph":"X"`, "not an array"},
		"negative":    {names + `,{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":-1}]`, "it has no length"},
		"no time":     {names + `,{"ph":"X","name":"x","pid":1,"tid":1,"dur":1}]`, "it has no time"},
		"fraction":    {names + `,{"ph":"X","name":"x","pid":1,"tid":1,"ts":1.5,"dur":1}]`, "not an array"},
		"no track":    {names + `,{"ph":"X","name":"x","pid":1,"tid":9,"ts":1,"dur":1}]`, "track has no name"},
		"no process":  {names + `,{"ph":"X","name":"x","pid":2,"tid":1,"ts":1,"dur":1}]`, "process has no name"},
		"no end":      {names + `,{"ph":"b","id":1,"name":"x","pid":1,"tid":1,"ts":1}]`, "1 spans have no end"},
		"no begin":    {names + `,{"ph":"e","id":1,"name":"x","pid":1,"tid":1,"ts":1}]`, "ends before it begins"},
		"no value":    {names + `,{"ph":"C","name":"x","pid":1,"tid":1,"ts":1}]`, "counts nothing"},
		"text":        {names + `,{"ph":"C","name":"x","pid":1,"tid":1,"ts":1,"args":{"v":"x"}}]`, "v is x"},
		"other phase": {names + `,{"ph":"Z","name":"x","pid":1,"tid":1,"ts":1}]`, "not known"},
		"overlap": {names + `,{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":3},
			{"ph":"X","name":"y","pid":1,"tid":1,"ts":2,"dur":3}]`, "overlap"},
	} {
		if _, err := traceformat.Read([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s gives %v", name, err)
		}
	}
}
