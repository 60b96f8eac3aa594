package schedule

import "time"

// Tracer takes what happens when, for those who look for time. Its methods may be called from several goroutines. What
// one track has nests: a span begins and ends within another one, or beside it.
type Tracer interface {
	// Span takes something that took time; args are names and values in turn.
	Span(track, name string, begin, end time.Time, args ...any)
	// Counter takes the values of a counter's series at a time, as names and values in turn.
	Counter(name string, at time.Time, series ...any)
}

// Tracks of a run.
const (
	HostTrack   = "host"   // the goroutine that schedules and calls the device
	DeviceTrack = "device" // programs while they run
	DrainTrack  = "drain"  // detokenizing
)

// span begins a span of a track; the function that it returns ends it.
func (c *Config) span(track, name string) (end func(args ...any)) {
	if c.Trace == nil {
		return func(...any) {}
	}
	begin := c.Now()
	return func(args ...any) { c.Trace.Span(track, name, begin, c.Now(), args...) }
}
