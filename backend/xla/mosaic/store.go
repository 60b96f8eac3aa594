package mosaic

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/quire/quire/backend"
)

// Suffix ends the names of payload files in a folder.
const Suffix = ".payload"

// SMEM of a TPU core, of which a kernel's page table and lengths must leave a little.
var smemBytes = backend.For(backend.TPU).ScalarMemory

const smemReserved = 16 << 10

//go:embed payloads/common.zst
var common []byte

// Embedded returns the payloads that come with the program.
var Embedded = sync.OnceValues(func() ([]*Payload, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	data, err := d.DecodeAll(common, nil)
	if err != nil {
		return nil, fmt.Errorf("mosaic: the embedded payloads: %w", err)
	}
	return Parse(data)
})

// Entry is a payload and the file that it is in, "" for an embedded one.
type Entry struct {
	*Payload
	File string
}

// Store is the embedded payloads and those in a folder of the user's.
type Store struct {
	entries []Entry
}

// Open reads the payloads of dir, if there is such a folder, and the built-in ones. dir may be "".
func Open(dir string) (*Store, error) {
	embedded, err := Embedded()
	if err != nil {
		return nil, err
	}
	s := &Store{}
	if dir != "" {
		files, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("mosaic: %w", err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), Suffix) {
				continue
			}
			path := filepath.Join(dir, f.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("mosaic: %w", err)
			}
			payloads, err := Parse(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: remove it", path, err)
			}
			for _, p := range payloads {
				s.entries = append(s.entries, Entry{p, path})
			}
		}
	}
	for _, p := range embedded {
		s.entries = append(s.entries, Entry{Payload: p})
	}
	return s, nil
}

// Entries lists all payloads, the folder's first.
func (s *Store) Entries() []Entry { return slices.Clone(s.entries) }

// Request asks for a kernel.
type Request struct {
	Kernel string
	Config Config
	Sizes  Sizes
	// OneTokenPerSeq reports whether each sequence has one query at most.
	OneTokenPerSeq bool
}

// Serves reports whether a payload is made for a request, with any blocks.
func (p *Payload) Serves(r Request) bool {
	return p.Kernel == r.Kernel && p.Config.same(r.Config) && (p.Form != FormDecode || r.OneTokenPerSeq)
}

// NeedsAsMuchAs reports whether a payload for the same as another has blocks that are as large, and no more memory for
// them.
func (p *Payload) NeedsAsMuchAs(q *Payload) bool {
	return p.Kernel == q.Kernel && p.Form == q.Form && p.Config.same(q.Config) &&
		p.Blocks.Queries >= q.Blocks.Queries && p.Blocks.Pages >= q.Blocks.Pages &&
		p.Blocks.VMEMLimit <= q.Blocks.VMEMLimit
}

// prefers reports whether one payload that serves the request is better than another: the form that is made for it,
// then the one with more queries in a block. The kernel that only attends has no forms; where each sequence has one
// query it wastes less with few queries in a block. Of others that are as good, the first is taken.
func (r Request) prefers(p, q *Payload) bool {
	switch {
	case p.Form != q.Form:
		return p.Form == FormDecode
	case r.OneTokenPerSeq && r.Kernel == RaggedPagedAttention:
		return p.Blocks.Queries < q.Blocks.Queries
	}
	return p.Blocks.Queries > q.Blocks.Queries
}

// NoKernelError reports that there is no kernel for a request, so that its plain form is to be built.
type NoKernelError struct {
	Request Request
	// Reason states why in a sentence, Remedy what to do about it.
	Reason, Remedy string
	// Unknown reports whether no payload at all was made for the request's shape.
	Unknown bool
}

// Error implements error.
func (e *NoKernelError) Error() string {
	return fmt.Sprintf("mosaic: no kernel %s for %s: %s: %s", e.Request.Kernel, e.Request.Config, e.Reason, e.Remedy)
}

// Find returns the call of the kernel made for exactly what is asked for, or a [*NoKernelError]. A folder's payload is
// preferred to an embedded one.
func (s *Store) Find(r Request) (*Call, error) { return s.FindExcept(r, nil) }

// FindExcept is Find without the payloads for which except holds; nil for all.
func (s *Store) FindExcept(r Request, except func(*Payload) bool) (*Call, error) {
	var best *Payload
	refused := false
	for _, e := range s.entries {
		if !e.Serves(r) {
			continue
		}
		if except != nil && except(e.Payload) {
			refused = true
			continue
		}
		if best == nil || r.prefers(e.Payload, best) {
			best = e.Payload
		}
	}
	if best == nil && refused {
		return nil, &NoKernelError{Request: r, Reason: "no payload has blocks small enough",
			Remedy: "`" + r.Config.captureCommand() + "` makes one with others where Python and JAX are installed"}
	}
	if best == nil {
		return nil, &NoKernelError{Request: r, Unknown: true, Reason: "no payload was captured for it",
			Remedy: "`" + r.Config.captureCommand() + "` makes one where Python and JAX are installed"}
	}
	if need := best.smem(r.Sizes); need > smemBytes-smemReserved {
		return nil, &NoKernelError{Request: r, Reason: fmt.Sprintf(
			"a page table of %d x %d takes %d KiB of %d KiB of SMEM", r.Sizes.Seqs, r.Sizes.PagesPerSeq, need>>10,
			smemBytes>>10), Remedy: "raise the page size, or lower the sequences or their length"}
	}
	call, err := best.Call(r.Sizes)
	if err != nil {
		return nil, &NoKernelError{Request: r, Reason: err.Error(),
			Remedy: "lower it; of a loop of layers the pages of all count, and larger ones are fewer"}
	}
	return call, nil
}

// captureCommand is what makes the payload.
func (c Config) captureCommand() string {
	s := fmt.Sprintf("sample kernels capture --heads %d --kv-heads %d --head-dim %d --page-size %d --scale %.9g",
		c.Heads, c.KVHeads, c.HeadDim, c.PageSize, c.Scale)
	if c.DType != "bfloat16" {
		s += " --dtype " + c.DType
	}
	if c.KVDType != c.DType {
		s += " --kv-dtype " + c.KVDType
	}
	if c.Window > 0 {
		s += fmt.Sprintf(" --window %d", c.Window)
	}
	if c.SoftCap > 0 {
		s += fmt.Sprintf(" --soft-cap %g", c.SoftCap)
	}
	if c.Sinks {
		s += " --sinks"
	}
	return s
}

// smem returns the bytes of SMEM that a call takes: the page table, with padded rows if it has rows, lengths and
// starts.
func (p *Payload) smem(s Sizes) int {
	padded := func(n int) int { return (n + 127) / 128 * 128 }
	columns := max(s.PagesPerSeq, p.Blocks.Pages)
	if p.Kernel == PagedAttentionUpdate { // its table has one axis, and it keeps notes in four more arrays
		return 4 * (padded(s.Seqs*columns) + 2*padded(s.Seqs+1) + 4*128)
	}
	return 4 * (s.Seqs*padded(columns) + 2*padded(s.Seqs+1))
}
