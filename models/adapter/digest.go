package adapter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/quire/quire/models/safetensors"
)

// hashed is a file with the digest of an adapter.
type hashed struct {
	file   os.FileInfo
	layout string // see layout
	digest string
}

// known are the files that this process has hashed, by path: a job opens its adapters more than once.
var known sync.Map

// settledAfter is how old the last change of a file must be: until then, another one might not change its time.
const settledAfter = 2 * time.Second

// digestOf is the digest of an adapter whose file at path was as described before it was opened. A file that the
// process has hashed and that is the same since is not read.
func (a *Adapter) digestOf(path string, before os.FileInfo) string {
	layout := a.layout()
	if old, ok := known.Load(path); ok {
		old := old.(hashed)
		if old.layout == layout && isSame(old.file, before) && isNow(path, before) {
			return old.digest
		}
	}
	digest := a.digest()
	if isNow(path, before) && time.Since(before.ModTime()) > settledAfter {
		known.Store(path, hashed{before, layout, digest})
	}
	return digest
}

func isSame(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// isNow reports whether the file at path is still the same.
func isNow(path string, before os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && isSame(now, before)
}

// digest hashes what completions depend on: for each tensor of the base the scale and the numbers.
func (a *Adapter) digest() string {
	return a.hash(func(to io.Writer, t *safetensors.Tensor) { _, _ = to.Write(t.Data) })
}

// layout hashes the same with the names of the file's tensors in place of their numbers.
func (a *Adapter) layout() string {
	return a.hash(func(to io.Writer, t *safetensors.Tensor) { fmt.Fprintln(to, t.Name) })
}

func (a *Adapter) hash(add func(to io.Writer, t *safetensors.Tensor)) string {
	h := sha256.New()
	for _, name := range a.Tensors() {
		m := a.matrices[name]
		fmt.Fprintf(h, "%s %d %d %d %08x %s %s\n", name, m.out, m.rank, m.in, math.Float32bits(m.scale),
			m.a.DType, m.b.DType)
		add(h, m.a)
		add(h, m.b)
		if m.magnitude != nil {
			fmt.Fprintf(h, "magnitude %s\n", m.magnitude.DType)
			add(h, m.magnitude)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
