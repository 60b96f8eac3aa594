package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/dustin/go-humanize"

	"cmp"
	"github.com/quire/quire/data/tally"
	"sync"
)

// Notes are the notes on the parts of a job.
type Notes struct {
	parts map[int][]PartSummary
	seals map[Seal]int // the part with each seal
}

// NewNotes returns no notes.
func NewNotes() *Notes { return &Notes{map[int][]PartSummary{}, map[Seal]int{}} }

// Add adds a note. Of several notes on a part, the last one is valid.
func (n *Notes) Add(p PartSummary) {
	n.parts[p.Part] = append(n.parts[p.Part], p)
	if p.Sealed() {
		n.seals[p.Seal] = p.Part
	}
}

// Last returns the valid note on a part; ok is false if there is none.
func (n *Notes) Last(part int) (p PartSummary, ok bool) {
	all := n.parts[part]
	if len(all) == 0 {
		return p, false
	}
	return all[len(all)-1], true
}

// Counts returns the sum of the parts' figures.
func (n *Notes) Counts(parts []int) (sum tally.Counts) {
	for _, part := range parts {
		if p, ok := n.Last(part); ok {
			sum = sum.Plus(p.Noted())
		}
	}
	return sum
}

// There returns the notes on published parts, by number: of several notes on a part, the one that matches the current
// file. Parts without such a note are left out.
func (n *Notes) There(place Published, parts []Part) (map[int]PartSummary, error) {
	found := make([]*PartSummary, len(parts))
	err := inParallel(together, len(parts), func(i int) error {
		file, err := place.Open(parts[i].Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer file.Close()
		found[i], err = n.noteOf(file, parts[i].Number)
		return err
	})
	there := map[int]PartSummary{}
	for i, p := range found {
		if p != nil {
			there[parts[i].Number] = *p
		}
	}
	return there, err
}

// noteOf returns the note that matches a part's file; nil if there is none. A note without digests, as older versions
// wrote it, matches files that no other note matches.
func (n *Notes) noteOf(file File, part int) (*PartSummary, error) {
	seal, err := SealOf(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read part %d: %w", part, err)
	}
	var alike []PartSummary
	var old *PartSummary
	for _, p := range n.parts[part] {
		switch {
		case !p.Sealed():
			old = &p
		case p.Seal == seal:
			alike = append(alike, p)
		}
	}
	if len(alike) == 0 {
		return old, nil
	}
	last := &alike[len(alike)-1]
	if !slices.ContainsFunc(alike, func(p PartSummary) bool { return p.SHA256 != last.SHA256 }) {
		return last, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, file.Size())); err != nil {
		return nil, fmt.Errorf("cannot read part %d: %w", part, err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	for _, p := range slices.Backward(alike) {
		if p.SHA256 == digest {
			return &p, nil
		}
	}
	return old, nil
}

// CanCheck reports whether a part can be checked against notes: it has a note with a seal, or it has none and other
// parts have such notes. Versions that did not record seals left parts that cannot be checked.
func (n *Notes) CanCheck(part int) bool {
	if len(n.parts[part]) == 0 {
		return len(n.seals) > 0
	}
	return slices.ContainsFunc(n.parts[part], func(p PartSummary) bool { return p.Sealed() })
}

// Compare returns how a part with this seal differs from its notes; "" if it does not.
func (n *Notes) Compare(part Part, seal Seal) string {
	notes := n.parts[part.Number]
	if slices.ContainsFunc(notes, func(p PartSummary) bool { return p.Seal == seal }) {
		return ""
	}
	other, ok := n.seals[seal]
	switch {
	case ok && other != part.Number:
		return fmt.Sprintf("it has the content of %s", PartName(other, part.Format))
	case len(notes) == 0:
		return "there is no note that this job wrote it"
	}
	for _, p := range slices.Backward(notes) {
		if p.Sealed() && p.Bytes != seal.Bytes {
			return fmt.Sprintf("it has %s bytes, and was written with %s", humanize.Comma(seal.Bytes),
				humanize.Comma(p.Bytes))
		}
	}
	return "its last bytes are not those that were written"
}

// HasDigest reports whether one of a part's notes has this SHA-256.
func (n *Notes) HasDigest(part int, digest string) bool {
	return slices.ContainsFunc(n.parts[part], func(p PartSummary) bool { return p.SHA256 == digest })
}

// Tell reports whether the notes have seals of all these published parts, and the parts match them. Then the job's
// other notes add nothing.
func (n *Notes) Tell(place Published, parts []Part) (bool, error) {
	for _, part := range parts {
		if p, ok := n.Last(part.Number); !ok || !p.Sealed() {
			return false, nil
		}
	}
	looks, err := n.look(place, parts)
	return !slices.ContainsFunc(looks, func(l look) bool { return l.gone || l.what != "" }), err
}

// complete adopts other machines' notes on parts that have none here, and returns them.
func (n *Notes) complete(folder Output, parts []Part) (noted []PartSummary, err error) {
	lacking := slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return len(n.parts[p.Number]) > 0 })
	there := make([]*PartSummary, len(lacking))
	err = inParallel(together, len(lacking), func(i int) (err error) {
		there[i], err = folder.Note(lacking[i].Number)
		return err
	})
	for _, p := range there {
		if err == nil && p != nil {
			n.Add(*p)
			noted = append(noted, *p)
		}
	}
	return noted, err
}

// look is the result for one part.
type look struct {
	part    Part
	gone    bool
	what    string // what is wrong
	seal    Seal
	version string
}

// look compares parts with their notes, several at a time.
func (n *Notes) look(place Published, parts []Part) ([]look, error) {
	looks := make([]look, len(parts))
	err := inParallel(together, len(parts), func(i int) (err error) {
		looks[i], err = n.lookAt(place, parts[i])
		return err
	})
	return looks, err
}

func (n *Notes) lookAt(place Published, part Part) (l look, err error) {
	l.part = part
	if !n.CanCheck(part.Number) {
		return l, nil
	}
	file, err := place.Open(part.Name)
	if errors.Is(err, fs.ErrNotExist) {
		l.gone = true
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer file.Close()
	if l.seal, err = SealOf(file); err != nil {
		return l, fmt.Errorf("cannot read %s: %w", part.Name, err)
	}
	l.what, l.version = n.Compare(part, l.seal), file.Version()
	return l, nil
}

// together is how many files of an output are read at the same time: notes, and ends of parts. Each costs a small
// disk read, or two requests to an object store.
const together = 32

// inParallel calls do with 0 to n-1, several at a time, and returns the error with the lowest number.
func inParallel(together, n int, do func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, together)
	var wait sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	wait.Wait()
	return cmp.Or(errs...)
}
