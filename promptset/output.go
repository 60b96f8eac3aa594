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

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/storage"
	"github.com/quire/quire/vfs"
)

// Output is what writers published in one place, read back.
type Output struct {
	// Parts are the part files there, by number, whatever job they belong to.
	Parts []Part
	place Published

	column *string // what promptColumn found
}

// Part is a part file of an output.
type Part struct {
	Number       int
	Format, Name string
}

// Belongs says whether a part is one of a job that cuts its rows so and writes this format.
func (p Part) Belongs(parts Parts, format string) bool {
	return p.Number < parts.Count() && p == parts.Part(p.Number, format)
}

// Missing lists the parts of such a job that are not there.
func (o *Output) Missing(parts Parts, format string) (missing []int) {
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

// OpenOutput looks what parts are in a place.
func OpenOutput(place Published) (*Output, error) {
	names, err := place.Names()
	if err != nil {
		return nil, err
	}
	o := &Output{place: place}
	for _, name := range names {
		if number, format, ok := ParsePartName(name); ok {
			o.Parts = append(o.Parts, Part{number, format, name})
		}
	}
	slices.SortFunc(o.Parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Format,
			b.Format))
	})
	return o, nil
}

// ErrNoParts says that a folder has no part of a job.
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
	out, err := OpenOutput(OpenOutputFolder(ctx, files, path))
	if err == nil && len(out.Parts) == 0 {
		err = fmt.Errorf("%s %w", path, ErrNoParts)
	}
	return out, err
}

// OpenOutputFile takes a single file, here or in an object store, for an output with one part.
func OpenOutputFile(ctx context.Context, name string) *Output {
	part := Part{Name: name, Format: FormatOfFile(storage.Path(name))}
	return &Output{Parts: []Part{part}, place: singleFile{ctx, name}}
}

// singleFile is a place with one file.
type singleFile struct {
	ctx  context.Context
	name string
}

func (f singleFile) Names() ([]string, error) { return []string{f.name}, nil }

func (f singleFile) Open(name string) (File, error) {
	if name != f.name {
		return nil, fs.ErrNotExist
	}
	return storage.Open(f.ctx, name)
}

// Open opens a file of the output.
func (o *Output) Open(name string) (File, error) { return o.place.Open(name) }

// PartContent is what a whole part turned out to be.
type PartContent struct {
	SHA256 string // of the file, in hex
	Seal
	Rows int64             // output rows that could be read
	Meta map[string]string // of a Parquet part's footer; nil for JSONL
	// Damage says why the part could not be read to its end; it is empty for one that could.
	Damage string
}

// wholeBytes is the size up to which a part is read into memory, once; a larger one is read for its digest, then for
// its rows.
const wholeBytes = 64 << 20

// Read reads all of a part, and gives each of its rows to each, whose error ends the reading and is returned as it is.
// Another error is ctx's or one of reading; what is wrong with the part itself is [PartContent.Damage].
func (o *Output) Read(ctx context.Context, part Part, each func(*Completion) error) (c PartContent, err error) {
	file, err := o.place.Open(part.Name)
	if err != nil {
		return c, err
	}
	in := &Watched{File: file}
	defer in.Close()
	sums := newMeasured(io.Discard)
	var whole bytes.Buffer
	to := io.Writer(sums)
	if in.Size() <= wholeBytes {
		to = io.MultiWriter(sums, &whole)
	}
	if _, err := io.Copy(to, &interruptible{ctx, io.NewSectionReader(in, 0, in.Size())}); err != nil {
		return c, err
	}
	c.SHA256, c.Seal = sums.sums()
	var bytesOf io.ReaderAt = in
	if in.Size() <= wholeBytes {
		bytesOf = bytes.NewReader(whole.Bytes())
	}
	var own error // of each
	c.Meta, err = readPart(part.Format, bytesOf, in.Size(), func(row *Completion) error {
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

// Rows gives the rows of a part without a look at its digest. An error ends them: it is [ErrNoCompletions] for a file
// that is no part of an output.
func (o *Output) Rows(ctx context.Context, part Part) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		stopped := false
		err := func() error {
			if IsCompressed(storage.Path(part.Name)) { // no part is
				return ErrNoCompletions
			}
			in, err := o.place.Open(part.Name)
			if err != nil {
				return err
			}
			defer in.Close()
			_, err = readPart(part.Format, in, in.Size(), func(row *Completion) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				row.column = o.promptColumn
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

// promptColumn is the column that has the prompts, as the output's metadata say; "" where its name says it.
func (o *Output) promptColumn() string {
	if o.column == nil {
		var parameters struct {
			Column string `json:"prompt_column"`
		}
		if meta, err := o.Meta(); err == nil {
			_ = json.Unmarshal([]byte(meta[MetaParameters]), &parameters) // of jobs without, and of other programs
		}
		o.column = &parameters.Column
	}
	return *o.column
}

// errStopped ends reading whose rows nobody wants any more.
var errStopped = errors.New("stopped")

// Meta returns what the output says of how it was made: the metadata of JSONL parts, and those of the first Parquet
// part, which hold where both have a name.
func (o *Output) Meta() (map[string]string, error) {
	meta := map[string]string{}
	text, err := o.read(MetaName, maxMeta)
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read %s: %w", MetaName, err)
	}
	i := slices.IndexFunc(o.Parts, func(p Part) bool {
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
	of, err := formatNamed(o.Parts[i].Format).meta(part, part.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Parts[i].Name, err)
	}
	maps.Copy(meta, of)
	return meta, nil
}

// maxMeta bounds what is read of a file with the metadata of JSONL parts.
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

// interruptible is a reader that ends with its context.
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

// readPart gives the rows of a part to each, and returns the metadata of a Parquet part.
func readPart(format string, in io.ReaderAt, size int64, each func(*Completion) error) (map[string]string, error) {
	f := formatNamed(format)
	if f == nil {
		return nil, fmt.Errorf("its format %q is unknown", format)
	}
	return f.read(in, size, each)
}

// readJSONLPart gives the rows of a JSONL part to each. Lines of an output file of OpenAI's batch API, by whatever
// program, are read as what they are.
func readJSONLPart(in io.ReaderAt, size int64, each func(*Completion) error) (map[string]string, error) {
	asAnswers := false
	return nil, readLines(in, size, func(raw []byte, all []member, first bool) ([]*Completion, error) {
		if asAnswers = asAnswers || first && isAnswer(all); asAnswers {
			return answersOf(raw, all, first)
		}
		return rowOf(raw, all, first)
	}, each)
}

// rowOf returns the completion in a line.
func rowOf(_ []byte, all []member, first bool) ([]*Completion, error) {
	if first {
		has := func(name string) bool {
			return slices.ContainsFunc(all, func(m member) bool { return m.key == name })
		}
		if err := checkColumns(has, "%s is missing"); err != nil {
			return nil, err
		}
	}
	id, r, err := resultOf(all)
	if err != nil {
		return nil, err
	}
	return []*Completion{{ID: id, Result: *r, members: all,
		prompt: func(column string) string { return promptOf(all, column) }}}, nil
}

// readLines gives the completions to each that decode finds in each line. decode is told which line is the first.
func readLines(in io.ReaderAt, size int64, decode func([]byte, []member, bool) ([]*Completion, error),
	each func(*Completion) error) error {
	l, err := OpenLines("", io.NewSectionReader(in, 0, size))
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := l.Next()
		if err == io.EOF {
			return nil
		}
		var all []member
		if err == nil {
			all, err = members(line)
		}
		var completions []*Completion
		if err == nil {
			completions, err = decode(line, all, first)
		}
		if first && cutOff(in, size) && !errors.Is(err, ErrNoCompletions) {
			return errors.New("its last line is cut off")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.number, err)
		}
		for _, c := range completions {
			if err := each(c); err != nil {
				return err
			}
		}
	}
}

// cutOff says that the last line of a file does not end.
func cutOff(in io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	_, err := in.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
}

// addedTo returns what the writer added to a row: the columns from id on, before which are the input's. Another program
// may have written them in another order. They are then those of all columns that have the names, and those that not
// every output has may be the input's.
func addedTo[C any](all []C, name func(C) string) (added []C, moved bool) {
	added = all[max(0, slices.IndexFunc(all, func(c C) bool { return name(c) == idName })):]
	left := added
	for c := range Columns() {
		if len(left) > 0 && name(left[0]) == c.Name {
			left = left[1:]
		} else if c.always() {
			return all, true
		}
	}
	if len(left) > 0 {
		return all, true
	}
	return added, false
}

// resultOf takes what the writer added out of a row.
func resultOf(all []member) (id string, r *Result, err error) {
	o := outputRow{Result: &Result{}}
	ours, moved := addedTo(all, func(m member) string { return m.key })
	for c := range Columns() {
		i := slices.IndexFunc(ours, func(m member) bool { return m.key == c.Name })
		switch {
		case c.unread:
		case i >= 0 && c.Name == idName && decodeID(ours[i].raw, &o.id): // a number, in the hands of data frames
		case i >= 0 && c.derived && isNullJSON(ours[i].raw): // or a number that JSON does not have
		case i >= 0:
			if c.read(&o, func(at any) error { return c.form.setJSON(at, ours[i].raw) }) != nil {
				if moved && !c.always() {
					o.countAlone = o.countAlone || c.Name == tokenColumn
					continue
				}
				return "", nil, fmt.Errorf("%s is %s", c.Name, kindJSON(ours[i].raw))
			}
		case c.Name == tokenColumn:
			o.countAlone = true
		case c.always():
			return "", nil, fmt.Errorf("%s is missing", c.Name)
		}
	}
	return o.id, o.Result, nil
}

// readParquetPart gives the rows of a Parquet part to each, and returns the footer's metadata.
func readParquetPart(in io.ReaderAt, size int64, each func(*Completion) error) (meta map[string]string, err error) {
	file, root, err := openFooter(in, size)
	if err != nil {
		return nil, err
	}
	meta = metaOf(file)
	has := func(name string) bool { return root.field(name) != nil }
	if err := checkColumns(has, "it has no column %s"); err != nil {
		return meta, err
	}
	columns, err := resultColumns(root)
	if err != nil {
		return meta, err
	}
	prompts := newPromptReader(root)
	for i, group := range file.RowGroups() {
		err := checkPages(in, size, &file.Metadata().RowGroups[i])
		if err == nil {
			err = readGroup(group, columns, prompts, func(c *Completion) error {
				c.columns = root
				return each(c)
			})
		}
		if err != nil {
			return meta, fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return meta, nil
}

// parquetMeta reads the metadata of a file.
func parquetMeta(in io.ReaderAt, size int64) (map[string]string, error) {
	file, _, err := openFooter(in, size)
	if err != nil {
		return nil, err
	}
	return metaOf(file), nil
}

// metaOf returns the metadata in a footer.
func metaOf(file *parquet.File) map[string]string {
	meta := map[string]string{}
	for _, kv := range file.Metadata().KeyValueMetadata {
		meta[kv.Key] = kv.Value
	}
	return meta
}

// resultColumns finds what the writer added, by leaf.
func resultColumns(root *node) (found []*Column, err error) {
	ours, moved := addedTo(root.fields, func(n *node) string { return n.name })
	found = make([]*Column, root.leaves)
	for c := range Columns() {
		i := slices.IndexFunc(ours, func(n *node) bool { return n.name == c.Name })
		switch {
		case i < 0 && c.always():
			return nil, fmt.Errorf("it has no column %s", c.Name)
		case i < 0, c.unread, moved && !c.always() && !c.form.fits(ours[i]):
		case !c.form.fits(ours[i]):
			return nil, fmt.Errorf("its column %s is %s", c.Name, ours[i].describe())
		default:
			found[ours[i].column] = c
		}
	}
	return found, nil
}

// readGroup gives the rows of a row group to each.
func readGroup(group parquet.RowGroup, columns []*Column, prompts *promptReader, each func(*Completion) error) error {
	return eachRow(group, 16, func(values parquet.Row) error {
		id, r := resultOfRow(values, columns)
		prompt := func(column string) string { return prompts.of(values, column) }
		return each(&Completion{ID: id, Result: *r, prompt: prompt, values: values})
	})
}

// resultOfRow takes what the writer added out of the values of a row; columns are by leaf.
func resultOfRow(values parquet.Row, columns []*Column) (id string, r *Result) {
	o := outputRow{Result: &Result{}}
	o.countAlone = !slices.ContainsFunc(columns, func(c *Column) bool { return c != nil && c.Name == tokenColumn })
	for _, v := range values {
		switch c := columns[v.Column()]; {
		case c == nil:
		case v.IsNull() && v.DefinitionLevel() == 0:
			c.read(&o, nil)
		default:
			c.read(&o, func(at any) error { c.form.set(at, v); return nil })
		}
	}
	return o.id, o.Result
}
