package parameter

import (
	"iter"
	"strings"
)

// Own iterates over Quire's own parameters.
func Own() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range own {
			if !yield(&table[i]) { // the table starts with them
				return
			}
		}
	}
}

var byName = func() map[string][]*Parameter {
	all := map[string][]*Parameter{}
	for i := range table {
		p := &table[i]
		all[p.Name] = append(all[p.Name], p)
		if dashed := strings.ReplaceAll(p.Name, "_", "-"); dashed != p.Name { // as in flags
			alias := *p
			alias.Name = dashed
			all[dashed] = append(all[dashed], &alias)
		}
	}
	return all
}()

// Lookup returns the table's entries for a name, with dashes or underscores. There are none for a user's column, and
// several if the meaning of the name depends on the prompt column.
func Lookup(name string) []*Parameter { return byName[name] }

// All iterates over the whole table.
func All() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range table {
			if !yield(&table[i]) {
				return
			}
		}
	}
}

// OwnNames lists Quire's own parameters.
func OwnNames() (names []string) {
	for p := range Own() {
		names = append(names, p.Name)
	}
	return names
}

// Sink returns the parameter of Quire's own that a name sets to its values, or nil.
func Sink(name string) *Parameter {
	for _, p := range byName[name] {
		if p.Own() {
			return p
		}
		if p.Sets != "" && p.maps.values == nil {
			return Sink(p.Sets)
		}
	}
	return nil
}

// TypeOf returns the type of the values of a name that sets one of Quire's own parameters to them, or 0.
func TypeOf(name string) Type {
	if p := Sink(name); p != nil {
		return p.Type()
	}
	return 0
}
