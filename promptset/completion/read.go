package completion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/promptset/jsonvalue"
	"github.com/quire/quire/promptset/schema"
)

// PassedAt is where a column of the input stands among the columns of the output, which are renamed where that has one
// of the name; -1 is nowhere.
func PassedAt(column string, names []string) int {
	names = names[:max(0, slices.Index(names, columns[0].Name))]
	for name := column; len(name) < len(column)+len(names)*len("input_")+1; name = "input_" + name {
		if i := slices.Index(names, name); i >= 0 {
			return i
		}
	}
	return -1
}

// ErrNoCompletions says that a file has not the columns that every output has.
var ErrNoCompletions = errors.New("it has no completions")

// LackingError names a column that a file has not.
type LackingError struct{ What string }

func (e *LackingError) Error() string { return e.What }

func (e *LackingError) Is(target error) bool { return target == ErrNoCompletions }

// CheckColumns looks for the columns that no output does without. format is that of the error for one that is lacking.
func CheckColumns(has func(name string) bool, format string) error {
	for _, c := range Written(nil) {
		if !has(c.Name) && !c.mayLack {
			return &LackingError{fmt.Sprintf(format, c.Name)}
		}
	}
	return nil
}

// addedTo returns what the writer added to a row: the columns from id on, before which are the input's. Another program
// may have written them in another order. They are then those of all columns that have the names, and those that not
// every output has may be the input's.
func addedTo[C any](all []C, name func(C) string) (added []C, moved bool) {
	added = all[max(0, slices.IndexFunc(all, func(c C) bool { return name(c) == schema.IDName })):]
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

// ResultOf takes what the writer added out of a row.
func ResultOf(all []jsonvalue.Member) (id string, r *Result, err error) {
	o := Row{Result: &Result{}}
	ours, moved := addedTo(all, func(m jsonvalue.Member) string { return m.Key })
	for c := range Columns() {
		i := slices.IndexFunc(ours, func(m jsonvalue.Member) bool { return m.Key == c.Name })
		switch {
		case c.unread:
		case i >= 0 && c.Name == schema.IDName && jsonvalue.ParseID(ours[i].Raw, &o.ID):
			// It may be a number, in the hands of data frames.
		case i >= 0 && c.derived && jsonvalue.IsNull(ours[i].Raw): // or a number that JSON does not have
		case i >= 0:
			if c.read(&o, func(at any) error { return c.form.setJSON(at, ours[i].Raw) }) != nil {
				if moved && !c.always() {
					o.CountAlone = o.CountAlone || c.Name == tokenColumn
					continue
				}
				return "", nil, fmt.Errorf("%s is %s", c.Name, jsonvalue.Describe(ours[i].Raw))
			}
		case c.Name == tokenColumn:
			o.CountAlone = true
		case c.always():
			return "", nil, fmt.Errorf("%s is missing", c.Name)
		}
	}
	return o.ID, o.Result, nil
}

// ResultColumns finds what the writer added, by leaf.
func ResultColumns(root *schema.Node) (found []*Column, err error) {
	ours, moved := addedTo(root.Fields, func(n *schema.Node) string { return n.Name })
	found = make([]*Column, root.Leaves)
	for c := range Columns() {
		i := slices.IndexFunc(ours, func(n *schema.Node) bool { return n.Name == c.Name })
		switch {
		case i < 0 && c.always():
			return nil, fmt.Errorf("it has no column %s", c.Name)
		case i < 0, c.unread, moved && !c.always() && !c.form.fits(ours[i]):
		case !c.form.fits(ours[i]):
			return nil, fmt.Errorf("its column %s is %s", c.Name, ours[i].Describe())
		default:
			found[ours[i].Column] = c
		}
	}
	return found, nil
}

// ResultOfRow takes what the writer added out of the values of a row; columns are by leaf.
func ResultOfRow(values parquet.Row, columns []*Column) (id string, r *Result) {
	o := Row{Result: &Result{}}
	o.CountAlone = !slices.ContainsFunc(columns, func(c *Column) bool { return c != nil && c.Name == tokenColumn })
	for _, v := range values {
		switch c := columns[v.Column()]; {
		case c == nil:
		case v.IsNull() && v.DefinitionLevel() == 0:
			c.read(&o, nil)
		default:
			c.read(&o, func(at any) error { c.form.set(at, v); return nil })
		}
	}
	return o.ID, o.Result
}
