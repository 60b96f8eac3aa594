package deploy

import (
	"regexp"

	"github.com/quire/quire/data/setting"
)

// Slurm is a job of Slurm and the resources of its tasks.
type Slurm struct {
	Job
	// Processes is how many processes run one model, each on its own node. With 1 or 0, each task of the array runs a
	// model.
	Processes int
	// CPUs, Memory and GPUs are the resources of a task.
	CPUs   int
	Memory string
	GPUs   int
	// Time, Partition and Account are options of sbatch; Partition and Account may be empty.
	Time, Partition, Account string
}

// The allowed values of directives, because sbatch would read a second word as another option.
var (
	wordOfSlurm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]*$`)
	listOfSlurm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+,-]*$`)
	memoryOfSlurm = regexp.MustCompile(`^[1-9][0-9]*[KMGT]?$`)
	timeOfSlurm   = regexp.MustCompile(`^([0-9]+(:[0-9]{2}){0,2}|[0-9]+-[0-9]{1,2}(:[0-9]{2}){0,2})$`)
)

const ofWord = "at most 200 letters, digits and . _ @ + -, and begin with a letter or digit"

func (s *Slurm) check() error {
	if err := s.Job.check(); err != nil {
		return err
	}
	if s.Name == "" {
		return setting.Errorf("`name` is empty, but must be %s", ofWord)
	}
	for _, c := range []struct {
		name, value string
		pattern     *regexp.Regexp
		must        string
	}{
		{"name", s.Name, wordOfSlurm, ofWord},
		{"partition", s.Partition, listOfSlurm, ofWord + "; commas separate several"},
		{"account", s.Account, wordOfSlurm, ofWord},
		{"memory", s.Memory, memoryOfSlurm, "a whole number with K, M, G or T, such as 32G"},
		{"time", s.Time, timeOfSlurm, "a time of Slurm, such as 90, 24:00:00 or 7-00:00:00"},
	} {
		if err := matches(c.name, c.value, c.pattern, 200, c.must); err != nil {
			return err
		}
	}
	switch {
	case s.CPUs < 1:
		return setting.Errorf("`cpus` is %d, but must be 1 or more", s.CPUs)
	case s.Processes < 0:
		return setting.Errorf("`num-processes` is %d, but must be 1 or more", s.Processes)
	}
	return nil
}

// Last returns the number of the last task of the array.
func (s *Slurm) Last() int { return s.Workers - 1 }

// Script renders the script for sbatch.
func (s *Slurm) Script() (File, error) {
	if err := s.check(); err != nil {
		return File{}, err
	}
	text, err := render("quire.sbatch", s)
	return File{s.Name + ".sbatch", text}, err
}
