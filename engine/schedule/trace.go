package schedule

import "time"

// Tracer records a timeline. Its methods may be called from several goroutines. The spans of one track nest: two spans
// never overlap in part.
type Tracer interface {
	// Span records something that took time. args are names and values, alternating.
	Span(track, name string, begin, end time.Time, args ...any)
	// Counter records the values of a counter's series at a time, as names and values, alternating.
	Counter(name string, when time.Time, series ...any)
}

// Tracks of a run.
const (
	HostTrack   = "host"   // the goroutine that schedules and calls the device
	DeviceTrack = "device" // programs while they run
	DrainTrack  = "drain"  // detokenizing
)

// span starts a span of a track. The function that it returns ends it.
func (c *Config) span(track, name string) (end func(args ...any)) {
	if c.Trace == nil {
		return func(...any) {}
	}
	begin := c.Now()
	return func(args ...any) { c.Trace.Span(track, name, begin, c.Now(), args...) }
}
