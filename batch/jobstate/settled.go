package jobstate

import (
	"cmp"
	"strconv"
)

// Settled has the sizes and types that a job was started with, as the engine found them; zero means unknown. The
// fields are in the order of their names, as in job.json.
type Settled struct {
	DType         string `json:"dtype,omitempty"`
	KVBytes       int64  `json:"kv_bytes,omitempty"`
	KVDType       string `json:"kv_dtype,omitempty"`
	MaxModelLen   int    `json:"max_model_len,omitempty"`
	MaxSeqs       int    `json:"max_seqs,omitempty"`
	PageSize      int    `json:"page_size,omitempty"`
	PrefillTokens int    `json:"prefill_tokens,omitempty"`
}

// Same reports whether an engine matches what the job settled on. It compares only what both know, and not the
// memory.
func (s Settled) Same(was Settled) bool {
	s.KVBytes = was.KVBytes
	return s.over(was) == was.over(s) // a value that only one of them knows counts as equal
}

// over returns s, with the values of was for what s does not know.
func (s Settled) over(was Settled) Settled {
	return Settled{cmp.Or(s.DType, was.DType), cmp.Or(s.KVBytes, was.KVBytes), cmp.Or(s.KVDType, was.KVDType),
		cmp.Or(s.MaxModelLen, was.MaxModelLen), cmp.Or(s.MaxSeqs, was.MaxSeqs), cmp.Or(s.PageSize, was.PageSize),
		cmp.Or(s.PrefillTokens, was.PrefillTokens)}
}

// Texts returns the known values, by their names in job.json.
func (s Settled) Texts() map[string]string {
	all := map[string]string{}
	for name, text := range map[string]string{"dtype": s.DType, "kv_bytes": strconv.FormatInt(s.KVBytes, 10),
		"kv_dtype": s.KVDType, "max_model_len": strconv.Itoa(s.MaxModelLen), "max_seqs": strconv.Itoa(s.MaxSeqs),
		"page_size": strconv.Itoa(s.PageSize), "prefill_tokens": strconv.Itoa(s.PrefillTokens)} {
		if text != "" && text != "0" {
			all[name] = text
		}
	}
	return all
}
