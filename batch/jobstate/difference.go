package jobstate

import (
	"fmt"
	"strings"
)

// DifferenceOf is the kind of thing that a [Difference] concerns.
type DifferenceOf int

const (
	WholeJob     DifferenceOf = iota // the whole job, or something without a name
	Setting                          // the setting with that name
	InputContent                     // the input existed before and has different content now
	InputSet                         // the input is new, is missing, or is listed twice
)

// Difference is one difference between two jobs.
type Difference struct {
	Of   DifferenceOf
	Name string // name of the setting or the input
	Text string // the new and the old value, without the name
}

// Differ returns the difference of a setting that has changed from was to now.
func Differ(name string, now, was any) Difference {
	return Difference{Setting, name, fmt.Sprintf("is %v, was %v", now, was)}
}

// OfInput reports whether the difference concerns an input.
func (d Difference) OfInput() bool { return d.Of == InputContent || d.Of == InputSet }

func (d Difference) String() string {
	switch {
	case d.Of == Setting:
		return d.Name + " " + d.Text
	case d.OfInput():
		return "input " + d.Name + " " + d.Text
	}
	return d.Text
}

// Differences are all differences between two jobs. If there are none, both are the same job.
type Differences []Difference

// Texts describes each difference in words.
func (d Differences) Texts() (all []string) {
	for _, one := range d {
		all = append(all, one.String())
	}
	return all
}

func (d Differences) String() string { return strings.Join(d.Texts(), "; ") }
