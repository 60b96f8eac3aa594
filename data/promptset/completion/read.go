package completion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// PassedAt returns the index of an input column among the output's columns, which are renamed if the output has its
// own column of that name; -1 is none.
func PassedAt(column string, names []string) int {
	names = names[:max(0, slices.Index(names, columns[0].Name))]
	for name := column; len(name) < len(column)+len(names)*len("input_")+1; name = "input_" + name {
		if i := slices.Index(names, name); i >= 0 {
			return i
		}
	}
	return -1
}

// ErrNoCompletions reports that a file lacks the columns that every output has.
var ErrNoCompletions = errors.New("it has no completions")

// LackingError names a column that a file lacks.
type LackingError struct{ What string }

func (e *LackingError) Error() string { return e.What }

func (e *LackingError) Is(target error) bool { return target == ErrNoCompletions }

// CheckColumns checks that the columns that every output has are there. format is the format of the error for a
// missing one.
func CheckColumns(has func(name string) bool, format string) error {
	for c := range taskOf(has).Columns() {
		if c.always() && !has(c.Name) {
			return &LackingError{fmt.Sprintf(format, c.Name)}
		}
	}
	return nil
}

// addedTo returns the columns that the writer added to a row: the columns from id on, because the input's columns come
// before. If another program wrote them in a different order, it returns all columns that have the names; then columns
// that not every output has may be the input's.
func addedTo[C any](all []C, name func(C) string) (task Task, added []C, moved bool) {
	in := func(list []C) func(string) bool {
		return func(column string) bool {
			return slices.ContainsFunc(list, func(c C) bool { return name(c) == column })
		}
	}
	added = all[max(0, slices.IndexFunc(all, func(c C) bool { return name(c) == schema.IDName })):]
	left := added
	for c := range taskOf(in(added)).Columns() {
		if len(left) > 0 && name(left[0]) == c.Name {
			left = left[1:]
		} else if c.always() {
			return taskOf(in(all)), all, true
		}
	}
	if len(left) > 0 {
		return taskOf(in(all)), all, true
	}
	return taskOf(in(added)), added, false
}

// endAs sets why a result ended, if its output has no column for it.
func (r *Result) endAs(t Task) {
	switch {
	case t == Generate:
	case r.Err != "":
		r.FinishReason = "error"
	default:
		r.FinishReason = "stop"
	}
}

// ResultOf extracts what the writer added from a row.
func ResultOf(all []jsonvalue.Member) (id string, r *Result, err error) {
	o := Row{Result: &Result{}}
	task, ours, moved := addedTo(all, func(m jsonvalue.Member) string { return m.Key })
	for c := range task.Columns() {
		i := slices.IndexFunc(ours, func(m jsonvalue.Member) bool { return m.Key == c.Name })
		switch {
		case c.unread:
		case i >= 0 && c.Name == schema.IDName && jsonvalue.ParseID(ours[i].Raw, &o.ID):
			// Data frames may turn ids into numbers.
		case i >= 0 && c.derived && jsonvalue.IsNull(ours[i].Raw): // null for a number that JSON does not have
		case i >= 0:
			if c.read(&o, func(ptr any) error { return c.form.setJSON(ptr, ours[i].Raw) }) != nil {
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
	o.endAs(task)
	return o.ID, o.Result, nil
}

// ResultColumns returns the columns that the writer added, by leaf.
func ResultColumns(root *schema.Node) (found []*Column, err error) {
	task, ours, moved := addedTo(root.Fields, func(n *schema.Node) string { return n.Name })
	found = make([]*Column, root.Leaves)
	for c := range task.Columns() {
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

// ResultOfRow extracts what the writer added from the values of a row; columns are by leaf.
func ResultOfRow(values parquet.Row, columns []*Column) (id string, r *Result) {
	o := Row{Result: &Result{}}
	o.CountAlone = !slices.ContainsFunc(columns, func(c *Column) bool { return c != nil && c.Name == tokenColumn })
	for _, v := range values {
		switch c := columns[v.Column()]; {
		case c == nil:
		case v.IsNull() && v.DefinitionLevel() == 0:
			c.read(&o, nil)
		default:
			c.read(&o, func(ptr any) error { c.form.set(ptr, v); return nil })
		}
	}
	o.endAs(taskOf(func(name string) bool {
		return slices.ContainsFunc(columns, func(c *Column) bool { return c != nil && c.Name == name })
	}))
	return o.ID, o.Result
}
