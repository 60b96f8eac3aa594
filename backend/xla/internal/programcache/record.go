package programcache

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"log/slog"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Ahead is a program that was compiled for a topology, and the questions that it answers.
type Ahead interface {
	Memory() (pjrtc.Memory, error)
	Cost() (map[string]float64, error)
	OptimizedProgram() (code []byte, format string, err error)
	Close()
}

// Record has the answers of a program that was compiled ahead. Such a program runs nowhere, so its answers are all that
// a later process needs.
type Record struct {
	Needs      pjrtc.Memory
	Properties map[string]float64
	NoCost     bool // the plugin has no account of the cost
	Code       []byte
	Format     string
	// Refused is the compiler's error if the program needs more memory than there is. Nothing else is set then.
	Refused *pjrtc.Error
}

var _, _ Ahead = (*Record)(nil), (*pjrtc.Compiled)(nil)

// Memory implements [Ahead].
func (r *Record) Memory() (pjrtc.Memory, error) { return r.Needs, nil }

// Cost implements [Ahead].
func (r *Record) Cost() (map[string]float64, error) {
	if r.NoCost {
		return nil, &pjrtc.Error{Code: pjrtc.CodeUnimplemented, Message: "the plugin did not count the program's cost"}
	}
	return r.Properties, nil
}

// OptimizedProgram implements [Ahead].
func (r *Record) OptimizedProgram() (code []byte, format string, err error) {
	return r.Code, r.Format, nil
}

// Close implements [Ahead].
func (r *Record) Close() {}

// newRecord asks a program everything that an [Ahead] answers.
func newRecord(program Ahead) (*Record, error) {
	r := &Record{}
	var errs [3]error
	r.Needs, errs[0] = program.Memory()
	if r.Properties, errs[1] = program.Cost(); errs[1] != nil {
		refused := (*pjrtc.Error)(nil)
		if r.NoCost = errors.As(errs[1], &refused) && refused.Code == pjrtc.CodeUnimplemented; r.NoCost {
			errs[1] = nil
		}
	}
	r.Code, r.Format, errs[2] = program.OptimizedProgram()
	return r, errors.Join(errs[:]...)
}

// Known returns the record of a key, or nil if there is none.
func (c *Cache) Known(key string) *Record {
	body := c.Read(key)
	if body == nil {
		return nil
	}
	r := &Record{}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		err = gob.NewDecoder(z).Decode(r)
	}
	if err != nil {
		slog.Warn("what is known of a program can't be read, compiling again", "file", c.Path(key), "err", err)
		return nil
	}
	return r
}

// Learn records a program that was compiled, or one that was refused because it needs too much memory.
func (c *Cache) Learn(key string, program Ahead, refused *pjrtc.Error) {
	c.Store(key, func() ([]byte, error) {
		r := &Record{Refused: refused}
		if refused == nil {
			var err error
			if r, err = newRecord(program); err != nil {
				return nil, err
			}
		}
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		err := errors.Join(gob.NewEncoder(z).Encode(r), z.Close())
		return out.Bytes(), err
	})
}
