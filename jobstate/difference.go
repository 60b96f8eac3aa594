package jobstate

import (
	"fmt"
	"strings"
)

// DifferenceOf is what a [Difference] is of.
type DifferenceOf int

const (
	WholeJob     DifferenceOf = iota // or of what has no name
	Setting                          // of that name
	InputContent                     // the input was there before, and is another one now
	InputSet                         // the input was not there before, is not there now, or is there twice
)

// Difference is one thing that tells two jobs apart.
type Difference struct {
	Of   DifferenceOf
	Name string // of the setting or the input
	Text string // how it is and how it was, without its name
}

// Differ is a setting that is not what it was.
func Differ(name string, is, was any) Difference {
	return Difference{Setting, name, fmt.Sprintf("is %v, was %v", is, was)}
}

// OfInput reports whether an input differs.
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

// Differences are all things that tell two jobs apart; none means that they are one job.
type Differences []Difference

// Texts says each difference in words.
func (d Differences) Texts() (all []string) {
	for _, one := range d {
		all = append(all, one.String())
	}
	return all
}

func (d Differences) String() string { return strings.Join(d.Texts(), "; ") }
