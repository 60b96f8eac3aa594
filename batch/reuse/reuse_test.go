package reuse

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Each field of a request changes the key, or is one of those that do not belong into it.
func TestFieldsOfRequestsAreInTheKey(t *testing.T) {
	n := NewNamer(Basis{Model: "m"}, 0, nil, Forms{})
	base := func() *engine.Request {
		r := &engine.Request{ID: "a", Tokens: []int32{1, 2}, N: 1, MaxTokens: 5}
		r.Sampling.Temperature = 1
		return r
	}
	key := func(r *engine.Request) Key { return n.Name(r, "", false).Key }
	want := key(base())
	elsewhere := []string{"N", "FirstGeneration", "TopLogprobs", "ScorePrompt", "PromptTopLogprobs", "State", "Leaf",
		"Progress", "Started", "Context"}
	for i := range reflect.TypeFor[engine.Request]().NumField() {
		r := base()
		field := reflect.TypeFor[engine.Request]().Field(i)
		v := reflect.ValueOf(r).Elem().Field(i)
		same := false
		for _, name := range elsewhere {
			same = same || name == field.Name
		}
		if same {
			continue
		}
		change(v)
		if key(r) == want {
			t.Errorf("requests with another %s have the same key", field.Name)
		}
	}
	for i := range reflect.TypeFor[parameter.Sampling]().NumField() {
		r := base()
		change(reflect.ValueOf(&r.Sampling).Elem().Field(i))
		if key(r) == want {
			t.Errorf("requests with another %s have the same key", reflect.TypeFor[parameter.Sampling]().Field(i).Name)
		}
	}
	if n.Name(base(), "reasoning", false).Key == want || NewNamer(Basis{Model: "o"}, 0, nil, Forms{}).Name(base(), "",
		false).Key == want {
		t.Error("the form or the basis is not in the key")
	}
}

// change gives a field another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		change(one)
		v.Set(reflect.Append(v, one))
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		change(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		change(v.Field(0))
	default:
		panic(fmt.Sprint("no other value of ", v.Type()))
	}
}

// Greedy requests have one key whatever their ids, seeds and generations are, unless these matter.
func TestGreedyRequestsHaveOneKey(t *testing.T) {
	n := NewNamer(Basis{}, 100, nil, Forms{})
	a := &engine.Request{ID: "a", Tokens: []int32{1}, N: 1, MaxTokens: 5}
	b := &engine.Request{ID: "b", Tokens: []int32{1}, N: 3, FirstGeneration: 4, MaxTokens: 5}
	b.Sampling.Seed = 7
	x, y := n.Name(a, "", false), n.Name(b, "", false)
	if x.Key != y.Key || x.Of(0) != y.Of(5) || !x.Greedy {
		t.Error("greedy requests differ")
	}
	if n.Name(a, "", true).Key == n.Name(b, "", true).Key {
		t.Error("greedy requests whose ids matter are the same")
	}
	a.MaxTokens, b.MaxTokens = 500, 99 // both end at 100 tokens
	if n.Name(a, "", false).Key != n.Name(b, "", false).Key {
		t.Error("bounds that no completion reaches make a difference")
	}
}

// A completion with the vector of its prompt is one without for a row that wants none. A row that wants a vector takes
// one of the same form.
func TestVectorsOfCopies(t *testing.T) {
	named := func(form string, state bool) Keys {
		n := NewNamer(Basis{}, 100, []string{completion.VectorColumn}, Forms{Embedding: form})
		return n.Name(&engine.Request{Tokens: []int32{1}, N: 1, MaxTokens: 5, State: state}, "", false).Keys
	}
	with, without, other := named("float32[4]", true), named("float32[4]", false), named("int8[4]", true)
	if with.Key != without.Key || with.Key != other.Key {
		t.Error("the vector is in the key, so that nothing else is copied")
	}
	for _, c := range []struct {
		has, wants Extras
		lacks      string
	}{{with.Extras, with.Extras, ""}, {with.Extras, without.Extras, ""},
		{without.Extras, with.Extras, completion.VectorColumn}, {other.Extras, with.Extras, completion.VectorColumn}} {
		if lacks := c.has.Lacks(c.wants); lacks != c.lacks {
			t.Errorf("completions with %+v lack %q for %+v, want %q", c.has, lacks, c.wants, c.lacks)
		}
		r := completion.Result{Embedding: []float32{1}}
		if c.wants.Strip(&r); (r.Embedding == nil) != (c.wants.Embedding == "") {
			t.Errorf("a copy for %+v has the vector %v", c.wants, r.Embedding)
		}
	}
}

// Keys of a part are read back, and found; for any other bytes there is an error.
func TestKeysReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []entry
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			e := entry{content: rapid.Uint64().Draw(t, "content"), id: rapid.Uint64Range(0, 3).Draw(t, "id"),
				position: rapid.Uint32().Draw(t, "position"), first: 1, count: 2, origin: Copied, source: 1}
			e.key[0], e.key[15] = byte(rapid.IntRange(0, 3).Draw(t, "key")), 9
			entries = append(entries, e)
		}
		h := header{Part: 3, Format: "jsonl", Basis: Basis{Model: "m"}, Extras: []Extras{{Top: 2}}}
		b, err := encode(h, entries)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := parse(b)
		if err != nil || keys.len() != len(entries) || !reflect.DeepEqual(keys.header, h) {
			t.Fatalf("%+v, %v", keys, err)
		}
		f := newFilter(len(entries))
		for _, e := range entries {
			f.add(e.key[:])
		}
		for _, e := range entries {
			found := false
			for _, other := range keys.find(e.key) {
				found = found || other == e
			}
			if !found || !f.mayHave(e.key[:]) {
				t.Fatalf("%+v is not found", e)
			}
		}
		changed := bytes.Clone(b)
		changed[rapid.IntRange(0, len(b)-1).Draw(t, "place")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, err := parse(changed); err == nil {
			t.Fatal("damaged keys are read")
		}
		if _, err := parse(b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]); err == nil {
			t.Fatal("keys that are cut off are read")
		}
	})
}

// For any bytes, reading keys reports what is wrong and does not fail.
func FuzzParseKeys(f *testing.F) {
	b, _ := encode(header{Extras: []Extras{{}}}, []entry{{count: 1}})
	f.Add(b)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if keys, err := parse(b); err == nil {
			keys.find(Key{})
			keys.ofID(0)
		}
	})
}

// What a part can't tell apart has one digest, and all else has another.
func TestContentDigest(t *testing.T) {
	digest := func(r completion.Result) uint64 { return contentDigest([]completion.Result{r}, nil) }
	if digest(completion.Result{}) != digest(completion.Result{TokenIDs: []int32{}, TopIDs: [][]int32{},
		PromptTokenIDs: []int32{1}}) {
		t.Error("nothing and empty lists differ")
	}
	for _, r := range []completion.Result{{Text: "a"}, {TokenIDs: []int32{1}}, {Logprobs: []float32{1}},
		{Generation: 1}, {FinishReason: "stop"}, {Reasoning: "b"}, {ToolCalls: "[]"}, {TopIDs: [][]int32{{}}},
		{PromptLogprobs: []float32{1}}} {
		if digest(r) == digest(completion.Result{}) {
			t.Errorf("%+v has the digest of nothing", r)
		}
	}
}

// Requests name adapters. Other contents under a name make other completions.
func TestAdaptersAreInTheBasis(t *testing.T) {
	basis := func(adapters map[string]any) Basis {
		return BasisOf(&jobstate.Description{Settings: map[string]any{"adapters": adapters}})
	}
	first := basis(map[string]any{"a": "1", "b": "2"})
	if again := basis(map[string]any{"b": "2", "a": "1"}); again != first {
		t.Errorf("%+v, and in another order %+v", first, again)
	}
	for _, other := range []map[string]any{{"a": "1"}, {"a": "1", "b": "3"}, {"a": "2", "b": "1"}} {
		if basis(other).digest() == first.digest() {
			t.Errorf("the adapters %v have the digest of others", other)
		}
	}
}
