package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/lockstep"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/text/tokenizer"
)

// Texts are the tokens of the vocabulary as texts.
type Texts struct {
	Pieces     *tokenizer.Pieces // texts of tokens for stop strings; nil if the device looks for none
	Vocabulary func() (*masking.Vocabulary, error)
}

// residents are arrays that stay on the device and that no program changes: the tables of stops and the texts of
// tokens.
type residents struct {
	Texts
	backend compute.Backend
	stops   []compute.Buffer // arrays as program run takes them
	arena   *stopping.Arena  // the arena whose contents are on the device
	version int              // their version
	texts   []compute.Buffer // texts of tokens, for masks
}

// loadStops puts the tables of stops on the device: the texts of tokens, and an empty arena.
func (r *residents) loadStops(run *device.Compiled, shapes *device.StopTables) error {
	if shapes == nil {
		return nil
	}
	flats := []any{make([]int32, shapes.Next.Size())}
	if p := r.Pieces; p != nil {
		bytes := make([]int32, len(p.Bytes))
		for i, b := range p.Bytes {
			bytes[i] = int32(b)
		}
		flats = append(flats, bytes, p.Starts)
	}
	for i, leaf := range run.Resident[:len(flats)] {
		b, err := toDevices(r.backend, leaf, flats[i])
		if err != nil {
			return fmt.Errorf("%s: %w", leaf.Name, err)
		}
		r.stops = append(r.stops, b)
	}
	return nil
}

// replaceStops gives the device another arena.
func (r *residents) replaceStops(run *device.Compiled, table []int32) error {
	leaf := run.Resident[0]
	b, err := toDevices(r.backend, leaf, table)
	if err != nil {
		return fmt.Errorf("%s: %w", leaf.Name, err)
	}
	_ = r.stops[0].Finalize()
	r.stops[0] = b
	return nil
}

// decodeStops returns the arena that process 0 sent.
func (r *residents) decodeStops(shapes *device.StopTables, sent [][]byte) ([]int32, error) {
	if shapes == nil || len(sent) != 1 {
		return nil, errors.New("process 0 gives stops that this process has no room for")
	}
	table := make([]int32, shapes.Next.Size())
	if to := tree.Bytes(table); len(to) != len(sent[0]) {
		return nil, errors.New("process 0 gives an arena of stops of another size than is wanted here")
	}
	copy(tree.Bytes(table), sent[0])
	return table, nil
}

// loadTexts puts the texts of tokens on the device, if the program run takes them and they are not there.
func (r *residents) loadTexts(run *device.Compiled, features feature.Set) error {
	if !features.Has(feature.MaskedTokens) || r.texts != nil {
		return nil
	}
	leaves := run.Resident
	leaves = leaves[len(leaves)-2:]
	bytes, starts := make([]int32, leaves[0].Shape.Size()), make([]int32, leaves[1].Shape.Size())
	if v, err := r.Vocabulary(); err == nil {
		for i, b := range v.Bytes {
			bytes[i] = int32(b)
		}
		copy(starts, v.Starts)
	}
	for i, flat := range [][]int32{bytes, starts} {
		b, err := toDevices(r.backend, leaves[i], flat)
		if err != nil {
			return fmt.Errorf("%s: %w", leaves[i].Name, err)
		}
		r.texts = append(r.texts, b)
	}
	return nil
}

// facts are what processes must agree on.
func (r *residents) facts() []lockstep.Fact {
	if r.Pieces == nil {
		return nil
	}
	h := sha256.New()
	h.Write(r.Pieces.Bytes)
	h.Write(tree.Bytes(r.Pieces.Starts))
	return []lockstep.Fact{{Name: "the tokenizer's tokens", Value: hex.EncodeToString(h.Sum(nil)[:8])}}
}

func (r *residents) close() {
	finalize(r.stops)
	finalize(r.texts)
	r.stops, r.texts = nil, nil
}
