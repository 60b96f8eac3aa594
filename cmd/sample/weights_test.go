package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// trained writes what a trainer would: "trained FROM FOLDER SEED [PART]". FOLDER gets the weights of FROM, changed as
// the seed says, and its config; or, of tensors whose names contain PART alone, the weights only. Then comes
// FOLDER.ready.
func trained(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: trained FROM FOLDER SEED [PART]")
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	part := strings.Join(args[3:], "")
	ts.Check(train(ts.MkAbs(args[0]), ts.MkAbs(args[1]), seed, part))
}

func train(from, to string, seed uint64, part string) error {
	data, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+size], &header); err != nil {
		return err
	}
	type tensor struct {
		DType   string    `json:"dtype"`
		Shape   []int     `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	random := rand.New(rand.NewPCG(seed, 0))
	kept, body := map[string]tensor{}, []byte(nil)
	for name, text := range header {
		var t tensor
		if name == "__metadata__" || !strings.Contains(name, part) {
			continue
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
		values := data[8+size+t.Offsets[0] : 8+size+t.Offsets[1]]
		t.Offsets[0] = uint64(len(body))
		for ; t.DType == "F32" && len(values) > 0; values = values[4:] {
			x := math.Float32frombits(binary.LittleEndian.Uint32(values))
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(x+0.3*x*float32(random.NormFloat64())))
		}
		body = append(body, values...)
		t.Offsets[1] = uint64(len(body))
		kept[name] = t
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	file := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), body...)
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	for _, name := range []string{"config.json", "generation_config.json"} {
		if text, err := os.ReadFile(filepath.Join(from, name)); err == nil && part == "" {
			if err := os.WriteFile(filepath.Join(to, name), text, 0o666); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(to, "model.safetensors"), file, 0o666); err != nil {
		return err
	}
	return os.WriteFile(to+".ready", nil, 0o666)
}
