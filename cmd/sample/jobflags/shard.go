package jobflags

import (
	"fmt"

	"github.com/quire/quire/batch/environ"
	"github.com/quire/quire/batch/jobstate"
)

// shardAuto is the --shard that takes the shard from the environment.
const shardAuto = "auto"

// parseShard reads --shard. Without it a process does the whole job.
func parseShard(text string, getenv func(string) string) (shard jobstate.Shard, err error) {
	switch text {
	case "":
		return shard, nil
	case shardAuto:
		if shard, err = environ.Shard(getenv); err != nil {
			return shard, fmt.Errorf("--shard auto: %w", err)
		}
		return shard, nil
	}
	if shard, err = jobstate.ParseShard(text); err != nil {
		return shard, fmt.Errorf("--shard: %w, or auto", err)
	}
	return shard, nil
}
