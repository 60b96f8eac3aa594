package jobflags

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/queue"
)

// Units set how units of a job are treated, and how many processes of this machine do them.
type Units struct {
	Workers int
	distribute.UnitOptions
}

func (o *Units) define(s *pflag.FlagSet) {
	s.IntVar(&o.Workers, "workers", 0,
		"`N` run N worker processes on this machine, which share the job's parts; 0 runs the job in this process")
	s.DurationVar(&o.AckWait, "ack-wait", 0,
		"`TIME` give a unit to another worker after this long without a heartbeat (default: 10s with --workers, 1m "+
			"with sample submit)")
	s.IntVar(&o.MaxTries, "max-tries", queue.DefaultMaxTries,
		"`N` park a unit after N failed attempts without progress; the others continue")
}

// maxWorkers bounds --workers, against mistyped numbers.
const maxWorkers = 1024

func (o *Units) check() error {
	switch {
	case o.Workers < 0 || o.Workers > maxWorkers:
		return fmt.Errorf("--workers is %d, but must be 0 (this process) to %d", o.Workers, maxWorkers)
	case o.AckWait != 0 && o.AckWait < time.Second:
		return fmt.Errorf("--ack-wait is %s, but must be 1s or more", o.AckWait)
	case o.MaxTries < 1:
		return fmt.Errorf("--max-tries is %d, but must be 1 or more", o.MaxTries)
	}
	return nil
}
