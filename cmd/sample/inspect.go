package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
)

// damagedPart is a part that is there and is not what was written.
type damagedPart struct {
	part int
	name string
	what string
	note *promptset.PartSummary // of another machine, which this one lacks; the part is not damaged
}

// sealedParts tells which part has a seal.
type sealedParts map[promptset.Seal]int

// Parts that are looked at together: each costs a small read here, and two requests of an object store.
const (
	lookHere      = 8
	lookElsewhere = 32
)

// inspect looks at the size and the last bytes of each published part, and takes those that are not what was noted
// out of published: they are missing, and drawn again. Older versions noted neither; their parts are taken as they
// are.
func (s *savedJob) inspect(published map[int]bool) error {
	if len(published) == 0 { // as for most units of a queue: the notes of all others need not be read
		return nil
	}
	notes := map[int][]promptset.PartSummary{}
	parts := sealedParts{}
	err := s.state.Parts(func(b []byte) {
		if p, err := promptset.ParsePartSummary(b); err == nil {
			notes[p.Part] = append(notes[p.Part], p)
			if p.Sealed() {
				parts[p.Seal] = p.Part
			}
		}
	})
	if err != nil {
		return err
	}
	var all []int
	for part := range published {
		all = append(all, part)
	}
	slices.Sort(all)
	found := make([]damagedPart, len(all))
	together := lookHere
	if s.remote != nil {
		together = lookElsewhere
	}
	err = inParallel(together, len(all), func(i int) (err error) {
		found[i], err = s.look(all[i], notes[all[i]], parts)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.note != nil {
			if err := s.state.AddPart(d.note); err != nil {
				return err
			}
		}
		if d.what != "" {
			delete(published, d.part)
		}
		if d.what != "" && d.what != goneSince {
			s.damaged = append(s.damaged, d)
		}
	}
	return s.inspectMeta(len(all) > 0)
}

// goneSince is what is wrong with a part that was removed after it was listed: nothing to tell.
const goneSince = "it is gone"

// look compares a part with its notes.
func (s *savedJob) look(part int, notes []promptset.PartSummary, parts sealedParts) (d damagedPart, err error) {
	d = damagedPart{part: part, name: promptset.PartName(part, s.format)}
	if !canCheck(notes, parts) {
		return d, nil
	}
	file, err := s.folder.Open(d.name)
	if errors.Is(err, fs.ErrNotExist) {
		d.what = goneSince
		return d, nil
	}
	if err != nil {
		return d, err
	}
	defer file.Close()
	seal, err := promptset.SealOf(file)
	if err != nil {
		return d, fmt.Errorf("cannot read %s: %w", d.name, err)
	}
	if d.what = unlike(part, seal, notes, parts, s.format); d.what == "" || s.remote == nil {
		return d, nil
	}
	// Another machine may have written it, after --new there: its note counts, not what this machine has of an older
	// part.
	if there, err := s.remote.note(part); err != nil {
		return d, err
	} else if there != nil && (!there.Sealed() || there.Seal == seal) {
		d.what, d.note = "", there
		return d, nil
	}
	s.remote.condemn(d.name, file.Version())
	return d, nil
}

// canCheck says whether there is something to compare a part with: its notes of this version, or that other parts
// have such ones and it has none at all.
func canCheck(notes []promptset.PartSummary, parts sealedParts) bool {
	if len(notes) == 0 {
		return len(parts) > 0
	}
	return slices.ContainsFunc(notes, func(p promptset.PartSummary) bool { return p.Sealed() })
}

// unlike says what tells a part from what was noted of it; "" is nothing.
func unlike(part int, seal promptset.Seal, notes []promptset.PartSummary, parts sealedParts, format string) string {
	if slices.ContainsFunc(notes, func(p promptset.PartSummary) bool { return p.Seal == seal }) {
		return ""
	}
	other, ok := parts[seal]
	switch {
	case ok && other != part:
		return fmt.Sprintf("it has the content of %s", promptset.PartName(other, format))
	case len(notes) == 0:
		return "nothing says that it was written by this job"
	}
	for _, p := range slices.Backward(notes) {
		if p.Sealed() && p.Bytes != seal.Bytes {
			return fmt.Sprintf("it has %s bytes, and was written with %s", humanize.Comma(seal.Bytes),
				humanize.Comma(p.Bytes))
		}
	}
	return "its last bytes are not those that were written"
}

// tellDamaged names the parts that are drawn again because they are damaged.
func (s *savedJob) tellDamaged(w io.Writer) {
	for _, d := range s.damaged {
		fmt.Fprintf(w, "%s is damaged: %s; it is drawn again\n", d.name, d.what)
	}
	if s.wroteMeta != "" {
		fmt.Fprintf(w, "%s %s; it is written again\n", promptset.MetaName, s.wroteMeta)
	}
}

// inspectMeta writes the file with the metadata of JSONL parts again, where there are parts and it is not what it was.
func (s *savedJob) inspectMeta(parts bool) error {
	job := s.state.Job()
	if !parts || job == nil || len(job.Meta) == 0 || s.format != promptset.FormatJSONL {
		return nil
	}
	what, err := metaDamage(s.folder, job.Meta)
	if what == "" || err != nil {
		return err
	}
	s.wroteMeta = what
	if s.remote != nil && what != metaMissing {
		file, err := s.remote.Open(promptset.MetaName)
		if err != nil {
			return err
		}
		defer file.Close()
		s.remote.condemn(promptset.MetaName, file.Version())
	}
	return promptset.WriteMeta(s.folder, job.Meta)
}

const metaMissing = "is missing"

// metaDamage says what is wrong with the file with the metadata of JSONL parts; "" is nothing.
func metaDamage(place promptset.Published, meta map[string]string) (what string, err error) {
	want, err := promptset.MetaText(meta)
	if err != nil {
		return "", err
	}
	file, err := place.Open(promptset.MetaName)
	if errors.Is(err, fs.ErrNotExist) {
		return metaMissing, nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	got := make([]byte, min(file.Size(), int64(len(want))+1))
	if n, err := file.ReadAt(got, 0); n < len(got) {
		return "", fmt.Errorf("cannot read %s: %w", promptset.MetaName, err)
	}
	if string(got) != string(want) {
		return "is not what was written", nil
	}
	return "", nil
}

// inParallel calls do with 0 to n-1, some of them together, and returns the first error by number.
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

// note reads what the store has noted of a part; nil is nothing, or nothing that can be read.
func (f *objectFolder) note(part int) (*promptset.PartSummary, error) {
	text, err := f.read(fmt.Sprintf(remoteParts+remotePart, part))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := promptset.ParsePartSummary(text)
	if err != nil || p.Part != part {
		return nil, nil
	}
	return &p, nil
}

// condemn marks an object, in the version that was looked at, to be removed when another one takes its place.
func (f *objectFolder) condemn(name, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.condemned == nil {
		f.condemned = map[string]string{}
	}
	f.condemned[name] = version
}

// clearTheWay removes an object that is condemned, if it is still that one: another process may have mended it since.
func (f *objectFolder) clearTheWay(name string) error {
	f.mu.Lock()
	version, condemned := f.condemned[name]
	delete(f.condemned, name)
	f.mu.Unlock()
	if !condemned {
		return nil
	}
	url := storage.Join(f.url, name)
	file, err := storage.Open(f.ctx, url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now := file.Version()
	if err := file.Close(); err != nil || now != version {
		return err
	}
	return storage.Remove(f.ctx, url)
}

// addPart puts what a part came to beside it, before it is there. A note that is there and says something else is of
// an older version of the program, or of a part that is damaged or gone, and gives way; of a part that is whole it
// is another process' and does not.
func (f *objectFolder) addPart(p promptset.PartSummary, format string) error {
	name := fmt.Sprintf(remoteParts+remotePart, p.Part)
	err := f.put(name, p)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, noteErr := f.note(p.Part)
	if noteErr != nil {
		return errors.Join(err, noteErr)
	}
	if there != nil && there.Sealed() {
		file, openErr := f.Open(promptset.PartName(p.Part, format))
		if openErr == nil {
			seal, sealErr := promptset.SealOf(file)
			file.Close()
			if sealErr != nil || seal == there.Seal {
				return errors.Join(err, sealErr)
			}
		} else if !errors.Is(openErr, fs.ErrNotExist) {
			return errors.Join(err, openErr)
		}
	}
	if err := storage.Remove(f.ctx, storage.Join(f.url, name)); err != nil {
		return err
	}
	return f.put(name, p)
}
