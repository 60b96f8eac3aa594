package models

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/bert"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/sentence"
)

// defaultSentence is what the files of a checkpoint leave open: the mean of an encoder's hidden states, as
// sentence-transformers pools, and the last one of a decoder, the only one that has seen the whole text.
func defaultSentence(c *Config) sentence.Settings {
	if c.Generates() != nil {
		return sentence.Settings{Pooling: sentence.Mean}
	}
	return sentence.Settings{Pooling: sentence.Last}
}

// addSentence reads what a folder says about embeddings, before its weights are read.
func addSentence(c *Checkpoint, dir string) (err error) {
	if h := c.Config.Classifier; h != nil { // its config says all
		c.Sentence = sentence.Settings{Pooling: sentence.Pooling(h.Pooling)}
		return nil
	}
	if c.Config.Architecture == bert.ColBERT {
		c.Sentence, err = sentence.ReadColBERT(dir, c.Config.HiddenSize)
	} else {
		c.Sentence, err = sentence.ReadFolder(dir, defaultSentence(&c.Config))
	}
	if err != nil {
		return err
	}
	if c.Sentence.Matryoshka, err = sentence.ReadMatryoshka(dir); err != nil {
		return err
	}
	for _, d := range c.Sentence.Dense {
		c.Config.Dense = append(c.Config.Dense, arch.Dense{In: d.In, Out: d.Out, Bias: d.Bias,
			Activation: arch.Activation(d.Activation)})
	}
	return nil
}

// addDense adds the weights of dense layers, each of which has a folder of its own.
func addDense(c *Checkpoint, dir string, need Need) error {
	for i, d := range c.Sentence.Dense {
		file := filepath.Join(d.Folder, weightsFile)
		err := addTensors(c, filepath.Join(dir, file), file, nil, need.forFile(filepath.ToSlash(file)),
			func(stored string) (string, bool) {
				rest, used := strings.CutPrefix(stored, "linear.")
				return arch.NameDense(i) + "." + rest, used
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// ggufSentence reads how a GGUF file pools. Its format says nothing of what follows.
func ggufSentence(f *gguf.File, c *Config) (sentence.Settings, error) {
	if h := c.Classifier; h != nil {
		return sentence.Settings{Pooling: sentence.Pooling(h.Pooling)}, nil
	}
	s := defaultSentence(c)
	name, _ := f.String("general.architecture")
	kind, ok := f.Int(name + ".pooling_type")
	poolings := map[int64]sentence.Pooling{0: s.Pooling, 1: sentence.Mean, 2: sentence.CLS, 3: sentence.Last}
	switch s.Pooling, s.Stated = poolings[kind], ok && kind != 0; {
	case !ok:
		return defaultSentence(c), nil
	case s.Pooling == "":
		return s, fmt.Errorf("metadata key %q is %d: 1 (mean), 2 (cls) and 3 (last) are supported, and 4 (rank) with "+
			"a head", name+".pooling_type", kind)
	}
	return s, nil
}
