package promptset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Output is what writers published in one place, read back.
type Output struct {
	// Parts are the part files in the place, by number, of any job.
	Parts []folder.Part
	place folder.Published

	column *string // cached result of promptColumn
}

// Missing lists the job's parts that do not exist.
func (o *Output) Missing(parts folder.Parts, format string) (missing []int) {
	there := map[int]bool{}
	for _, part := range o.Parts {
		if part.Belongs(parts, format) {
			there[part.Number] = true
		}
	}
	for _, number := range parts.All() {
		if !there[number] {
			missing = append(missing, number)
		}
	}
	return missing
}

// OpenOutput lists the parts in a place.
func OpenOutput(place folder.Published) (*Output, error) {
	names, err := place.Names()
	if err != nil {
		return nil, err
	}
	o := &Output{place: place}
	for _, name := range names {
		if number, format, ok := folder.ParsePartName(name); ok {
			o.Parts = append(o.Parts, folder.Part{Number: number, Format: format, Name: name})
		}
	}
	slices.SortFunc(o.Parts, func(a, b folder.Part) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Format,
			b.Format))
	})
	return o, nil
}

// ErrNoParts reports that a folder has no part of a job.
var ErrNoParts = errors.New("holds no part files: is it the output folder of a run?")

// OpenPath opens an output folder, or a single file, wherever it is.
func OpenPath(ctx context.Context, files vfs.FS, path string) (*Output, error) {
	info, err := storage.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	if !info.Folder {
		return OpenOutputFile(ctx, path), nil
	}
	out, err := OpenOutput(folder.OpenToRead(ctx, files, path))
	if err == nil && len(out.Parts) == 0 {
		err = fmt.Errorf("%s %w", path, ErrNoParts)
	}
	return out, err
}

// OpenOutputFile treats a single file, local or in an object store, as an output with one part.
func OpenOutputFile(ctx context.Context, name string) *Output {
	part := folder.Part{Name: name, Format: folder.FormatOfFile(storage.Path(name))}
	return &Output{Parts: []folder.Part{part}, place: singleFile{ctx, name}}
}

// singleFile is a place with one file.
type singleFile struct {
	ctx  context.Context
	name string
}

func (f singleFile) Names() ([]string, error) { return []string{f.name}, nil }

func (f singleFile) Open(name string) (folder.File, error) {
	if name != f.name {
		return nil, fs.ErrNotExist
	}
	return storage.Open(f.ctx, name)
}

// Open opens a file of the output.
func (o *Output) Open(name string) (folder.File, error) { return o.place.Open(name) }

// PartContent describes the content of a whole part.
type PartContent struct {
	SHA256 string // SHA-256 of the file, in hex
	folder.Seal
	Rows int64             // number of readable output rows
	Meta map[string]string // metadata of a Parquet part's footer; nil for JSONL
	// Damage states why the part could not be read to its end; it is empty if it could.
	Damage string
}

// wholeBytes is the size up to which a part is read into memory, once. A larger part is read twice: for its digest,
// then for its rows.
const wholeBytes = 64 << 20

// Read reads a whole part and calls each for every row; an error of each ends the reading and is returned unchanged.
// Other errors are ctx's or errors of reading; damage of the part itself is reported in [PartContent.Damage].
func (o *Output) Read(ctx context.Context, part folder.Part, each func(*Completion) error) (c PartContent, err error) {
	file, err := o.place.Open(part.Name)
	if err != nil {
		return c, err
	}
	in := &input.Watched{File: file}
	defer in.Close()
	sums := folder.NewMeasured(io.Discard)
	var whole bytes.Buffer
	to := io.Writer(sums)
	if in.Size() <= wholeBytes {
		to = io.MultiWriter(sums, &whole)
	}
	if _, err := io.Copy(to, &interruptible{ctx, io.NewSectionReader(in, 0, in.Size())}); err != nil {
		return c, err
	}
	c.SHA256, c.Seal = sums.Sums()
	var bytesOf io.ReaderAt = in
	if in.Size() <= wholeBytes {
		bytesOf = bytes.NewReader(whole.Bytes())
	}
	var own error // error of each
	c.Meta, err = readPart(part.Format, bytesOf, in.Size(), 0, func(row *Completion) error {
		c.Rows++
		if own = ctx.Err(); own == nil {
			own = each(row)
		}
		return own
	})
	switch {
	case own != nil:
		return c, own
	case in.Err != nil:
		return c, fmt.Errorf("cannot read %s: %w", part.Name, in.Err)
	case err != nil:
		c.Damage = err.Error()
	}
	return c, nil
}

// Rows yields the rows of a part without computing its digest. An error ends them: it is
// [completion.ErrNoCompletions] if the file is not part of an output.
func (o *Output) Rows(ctx context.Context, part folder.Part) iter.Seq2[*Completion, error] {
	return o.RowsFrom(ctx, part, 0)
}

// RowsFrom is [Output.Rows] from a row on, or a line of answers; 0 is the first.
func (o *Output) RowsFrom(ctx context.Context, part folder.Part, from int64) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		stopped := false
		err := func() error {
			if lines.IsCompressed(storage.Path(part.Name)) { // parts are never compressed
				return completion.ErrNoCompletions
			}
			in, err := o.place.Open(part.Name)
			if err != nil {
				return err
			}
			defer in.Close()
			_, err = readPart(part.Format, in, in.Size(), from, func(row *Completion) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				row.PromptColumn = o.promptColumn
				if stopped = !yield(row, nil); stopped {
					return errStopped
				}
				return nil
			})
			return err
		}()
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// promptColumn returns the column that has the prompts, according to the output's metadata; "" if it has its standard
// name.
func (o *Output) promptColumn() string {
	if o.column == nil {
		var parameters struct {
			Column string          `json:"prompt_column"`
			Task   completion.Task `json:"task"`
		}
		if meta, err := o.Meta(); err == nil {
			// Outputs of jobs without parameters, and of other programs, have none.
			_ = json.Unmarshal([]byte(meta[completion.MetaParameters]), &parameters)
		}
		parameters.Column = cmp.Or(parameters.Column, parameters.Task.Reads().Prompt)
		o.column = &parameters.Column
	}
	return *o.column
}

// errStopped ends the reading when no more rows are wanted.
var errStopped = errors.New("stopped")

// Meta returns the output's metadata on how it was made: the metadata of JSONL parts merged with the first Parquet
// part's, which takes precedence.
func (o *Output) Meta() (map[string]string, error) {
	meta := map[string]string{}
	text, err := o.read(folder.MetaName, maxMeta)
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read %s: %w", folder.MetaName, err)
	}
	i := slices.IndexFunc(o.Parts, func(p folder.Part) bool {
		f := formatNamed(p.Format)
		return f != nil && f.meta != nil
	})
	if i < 0 {
		return meta, nil
	}
	part, err := o.place.Open(o.Parts[i].Name)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	partMeta, err := formatNamed(o.Parts[i].Format).meta(part, part.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Parts[i].Name, err)
	}
	maps.Copy(meta, partMeta)
	return meta, nil
}

// maxMeta bounds how much of a file with the metadata of JSONL parts is read.
const maxMeta = 1 << 20

// read reads the first bytes of a file of the output.
func (o *Output) read(name string, most int64) ([]byte, error) {
	file, err := o.place.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, 0, min(file.Size(), most)))
}

// interruptible is a reader that fails once its context is done.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (r *interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// readPart calls each for every row of a part from a row on, and returns the metadata of a Parquet part.
func readPart(format string, in io.ReaderAt, size, from int64, each func(*Completion) error) (map[string]string,
	error) {
	f := formatNamed(format)
	if f == nil {
		return nil, fmt.Errorf("its format %q is unknown", format)
	}
	return f.read(in, size, from, each)
}
