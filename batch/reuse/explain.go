package reuse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// Explanation states how completions of a row came to be in an output.
type Explanation struct {
	Part        string   `json:"part"`
	Position    int      `json:"position"` // of the first of them, in rows of the part
	Generations []int    `json:"generations"`
	Origins     []string `json:"origins"`           // generated, copied, repeated, kept
	Source      string   `json:"source,omitempty"`  // that they were copied from
	Reasons     []string `json:"reasons,omitempty"` // why they were not copied, one for each source
}

// originNames names the ways in which completions come to be.
var originNames = []struct {
	bit  uint8
	name string
}{{Generated, "generated"}, {Copied, "copied"}, {Repeated, "repeated"}, {Kept, "kept"}}

// Explain states how the completions of the rows with an id came to be in an output.
func Explain(ctx context.Context, files vfs.FS, output, id string) (all []Explanation, err error) {
	place := keysPlace{ctx, files, output}
	parts, err := place.list()
	if err != nil {
		return nil, err
	}
	digest := IDDigest(id)
	sources := map[string]*knownOutput{}
	for _, part := range parts {
		keys, err := place.read(part)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", part, err)
		}
		if keys == nil { // it is written again
			continue
		}
		for _, e := range keys.ofID(digest) {
			x := Explanation{Part: folder.PartName(part, keys.Format), Position: int(e.position)}
			for g := range e.count {
				x.Generations = append(x.Generations, int(e.first+g))
			}
			for _, o := range originNames {
				if e.origin&o.bit != 0 {
					x.Origins = append(x.Origins, o.name)
				}
			}
			if e.origin&Copied != 0 && int(e.source) < len(keys.Sources) {
				x.Source = keys.Sources[e.source]
			}
			if e.origin&Generated != 0 {
				for _, name := range keys.Sources {
					if name == keys.Store {
						x.Reasons = append(x.Reasons, name+" did not have them")
						continue
					}
					if sources[name] == nil {
						sources[name] = readKnown(ctx, files, name, digest)
					}
					x.Reasons = append(x.Reasons, name+" "+sources[name].lacks(&keys.header, &e))
				}
			}
			all = append(all, x)
		}
	}
	if len(parts) > 0 && len(all) == 0 {
		return nil, fmt.Errorf("%s: no published part has completions of the id %q", place.name(), id)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s has no part with keys: none is published yet, it answers a batch file, it "+
			"has vectors or scores, or a version of Quire wrote it that noted none", place.name())
	}
	slices.SortStableFunc(all, func(a, b Explanation) int { return strings.Compare(a.Part, b.Part) })
	return all, nil
}

// ofID returns the entries of an id, in the order of the part.
func (k *partKeys) ofID(digest uint64) (found []entry) {
	for i := range k.len() {
		if e := k.entry(i); e.id == digest {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return int(a.position) - int(b.position) })
	return found
}

// knownOutput is what an output has of one id.
type knownOutput struct {
	entries []entry
	headers []*header // of each entry
	basis   *Basis    // of a part, nil without any
	err     error
}

func readKnown(ctx context.Context, files vfs.FS, output string, id uint64) *knownOutput {
	k := &knownOutput{}
	place := keysPlace{ctx, files, output}
	parts, err := place.list()
	k.err = err
	for _, part := range parts {
		keys, err := place.read(part)
		if err != nil || keys == nil { // damage is a reason to have been generated, which others may outdo
			continue
		}
		k.basis = &keys.Basis
		for _, e := range keys.ofID(id) {
			k.entries, k.headers = append(k.entries, e), append(k.headers, &keys.header)
		}
	}
	return k
}

// lacks states why an output did not give the completions of an entry, as far as what it has now tells.
func (k *knownOutput) lacks(h *header, e *entry) string {
	switch {
	case k.err != nil:
		return fmt.Sprintf("cannot be read now: %v", k.err)
	case k.basis == nil:
		return "has no part with keys"
	case len(k.entries) == 0:
		return "has no row with this id"
	}
	best, reason := -1, ""
	for i, was := range k.entries {
		score, text := difference(h, k.headers[i], e, &was)
		if score > best {
			best, reason = score, text
		}
	}
	return reason
}

// difference states how two entries of an id differ, and how much of them is the same.
func difference(h, from *header, e, was *entry) (same int, text string) {
	switch {
	case h.Basis != from.Basis:
		return 0, "has this id, and " + strings.Join(h.Basis.Differences(from.Basis), ", ")
	case e.key == was.key: // below
	case e.prompt != was.prompt && e.parameters != was.parameters:
		return 1, "has this id with another prompt and other parameters"
	case e.prompt != was.prompt:
		return 2, "has this id with another prompt"
	case e.parameters != was.parameters:
		return 3, "has this id and prompt with other parameters"
	default:
		return 4, "has this id, prompt and parameters with another seed"
	}
	if lacks := from.Extras[was.extras].Lacks(h.Extras[e.extras]); lacks != "" {
		return 5, "has these completions without the column " + lacks
	}
	if was.first > e.first || was.first+was.count < e.first+e.count {
		return 6, fmt.Sprintf("has only generations %d to %d of this row", was.first, was.first+was.count-1)
	}
	return 7, "has these completions now: they were damaged or missing, or came later"
}
