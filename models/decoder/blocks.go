package decoder

import (
	"errors"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
)

// wanted returns the format that a tensor should be held in, regardless of the length of its rows.
func (s Storage) wanted(tensor string) blocks.Format {
	if s.Blocks == nil {
		return blocks.Format{}
	}
	return s.Blocks(tensor)
}

// alike restricts formats to one per kind of tensor: it returns the zero format for a kind whose tensors differ.
func alike(cfg models.Config, formatOf func(tensor string) blocks.Format,
	kindOf func(t arch.Tensor) string) func(tensor string) blocks.Format {
	if formatOf == nil {
		return nil
	}
	formats, kinds := map[string]blocks.Format{}, map[string]string{} // formats by kind; kinds by tensor
	for t := range cfg.Tensors() {
		kind, f := kindOf(t), formatOf(t.Name)
		if first, ok := formats[kind]; ok && first != f {
			f = blocks.Format{}
		}
		formats[kind], kinds[t.Name] = f, kind
	}
	return func(tensor string) blocks.Format { return formats[kinds[tensor]] }
}

// expertKind returns the same kind for the gates and ups, or the downs, of all experts of a layer, because they are
// one array.
func expertKind(t arch.Tensor) string {
	if kind, ok := expertArray(Array{Name: t.Array}); ok {
		return kind
	}
	return t.Name
}

// parts splits tensors into runs that are held in one format.
func (s Storage) parts(tensors []arch.Tensor) (runs [][]arch.Tensor) {
	for i, t := range tensors {
		if i == 0 || len(t.Shape) == 2 && s.wanted(t.Name) != s.wanted(tensors[i-1].Name) {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], t)
	}
	return runs
}

// format returns the format that a matrix's array is held in: the zero format if a device would have partial units of
// a row.
func (s Storage) format(a Array) blocks.Format {
	f := s.wanted(a.sources[0].name)
	if !f.Is() || a.format.In%f.Unit() != 0 {
		return blocks.Format{}
	}
	for _, from := range a.sources {
		if from.width%f.Unit() != 0 {
			return blocks.Format{}
		}
		for device := 0; from.columns && device < collective.Devices(s.Backend); device++ {
			for _, span := range joined(from.spans(device)) {
				if span.from%f.Unit() != 0 || span.to%f.Unit() != 0 || span.n%f.Unit() != 0 {
					return blocks.Format{}
				}
			}
		}
	}
	return f
}

// joined merges adjacent spans.
func joined(spans []span) (out []span) {
	for _, s := range spans {
		if last := len(out) - 1; last >= 0 && out[last].from+out[last].n == s.from && out[last].to+out[last].n == s.to {
			out[last].n += s.n
			continue
		}
		out = append(out, s)
	}
	return out
}

// fillBlocks writes the devices' parts of a tensor to a plane of a matrix in blocks.
func (a Array) fillBlocks(backend compute.Backend, flats []any, s source, devices [][]span,
	from *models.Checkpoint) error {
	if s.columns {
		return a.fillBlockColumns(backend, flats, s, devices, from)
	}
	for _, run := range merged(devices) {
		rows, err := a.readBlocks(s, models.Span{From: run.from, N: run.n}, nil, from)
		if err != nil {
			return err
		}
		for i, flat := range flats {
			for _, part := range devices[i] {
				if part.from < run.from || part.from >= run.from+run.n {
					continue
				}
				first := part.from - run.from
				some := rows.Slice(first, first+part.n)
				if err := a.format.PackBlocks(backend, a.plane, flat, some, part.to); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a Array) fillBlockColumns(backend compute.Backend, flats []any, s source, devices [][]span,
	from *models.Checkpoint) error {
	runs := merged(devices)
	if len(runs) == 0 {
		return nil
	}
	var columns []models.Span
	for _, run := range runs {
		columns = append(columns, models.Span{From: run.from, N: run.n})
	}
	read, err := a.readBlocks(s, models.Span{N: s.rows}, columns, from)
	if err != nil {
		return err
	}
	for i, flat := range flats {
		spans := joined(devices[i])
		for k := range spans {
			spans[k].from = place(runs, spans[k].from)
		}
		rows := read
		if len(spans) != 1 || spans[0].n != read.In || a.format.In != read.In {
			rows = blocks.NewRows(read.Format, read.N, a.format.In)
			for row := range read.N {
				for _, s := range spans {
					rows.Part(row*rows.In+s.to, s.n).Copy(read.Part(row*read.In+s.from, s.n))
				}
			}
		}
		if err := a.format.PackBlocks(backend, a.plane, flat, rows, 0); err != nil {
			return err
		}
	}
	return nil
}

// readBlocks reads rows of a tensor in the array's format: the file's blocks, or numbers rounded to it.
func (a Array) readBlocks(s source, rows models.Span, columns []models.Span, from *models.Checkpoint) (*blocks.Rows,
	error) {
	if from.Blocks(s.name) == a.format.Blocks {
		return from.ReadBlocks(s.name, rows, columns)
	}
	var flat any
	var err error
	width := s.width
	if columns == nil || slices.Equal(columns, []models.Span{{N: s.width}}) {
		flat, err = from.ReadRows(s.name, dtypes.Float32, rows)
	} else {
		width = 0
		for _, c := range columns {
			width += c.N
		}
		flat, err = from.ReadColumns(s.name, dtypes.Float32, columns)
	}
	if err != nil {
		return nil, err
	}
	x, ok := flat.([]float32)
	if !ok {
		return nil, errors.New("a tensor was not read as float32")
	}
	return blocks.Quantize(a.format.Blocks, x, width)
}
