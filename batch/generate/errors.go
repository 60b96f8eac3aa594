package generate

import (
	"fmt"

	"github.com/quire/quire/internal/plural"
)

// DeviceFailedError reports that the device keeps failing.
type DeviceFailedError struct {
	failures int
	err      error // the last one
}

func (e *DeviceFailedError) Error() string {
	return fmt.Sprintf("the device failed %s without finishing a completion in between, the last time with: %v",
		plural.Count(e.failures, "time"), e.err)
}

func (e *DeviceFailedError) Unwrap() error { return e.err }
