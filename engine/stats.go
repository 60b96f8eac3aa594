package engine

// Stats says what a run did. Seconds are wall-clock.
type Stats struct {
	// StartSeconds is from New's begin until the programs are compiled and the weights are on the device.
	StartSeconds float64 `json:"start_seconds"`
	WallSeconds  float64 `json:"wall_seconds"`
	// FirstTokenSeconds is from the run's begin until the first token was drawn.
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// DeviceSeconds are spent in calls, the transfers for them included; HostSeconds between calls, while the device waits.
	DeviceSeconds float64 `json:"device_seconds"`
	HostSeconds   float64 `json:"host_seconds"`
	// PrefillSeconds and DecodeSeconds split DeviceSeconds by the kind of step. Calls mix both, so they are an estimate: least squares over
	// the calls, as if every step of a kind took the same time.
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeSeconds  float64 `json:"decode_seconds"`

	Requests     int `json:"requests"`
	PromptTokens int `json:"prompt_tokens"` // of the requests, each counted once
	// PrefillTokens are the prompt tokens that were run: for n completions of a prompt, all of it once and its last token n times.
	PrefillTokens int `json:"prefill_tokens"`
	// HitTokens are the prompt tokens that completions and prefixes took over from a prefix that was there already.
	HitTokens       int `json:"hit_tokens"`
	GeneratedTokens int `json:"generated_tokens"`
	DecodeTokens    int `json:"decode_tokens"` // drawn tokens that were run to draw the next
	Calls           int `json:"calls"`
	PrefillSteps    int `json:"prefill_steps"`
	DecodeSteps     int `json:"decode_steps"`
	Pages           int `json:"pages"`
	// Preemptions counts sequences that moved to the host; MovedBytes are the keys and values moved, there and back.
	Preemptions int   `json:"preemptions"`
	MovedBytes  int64 `json:"moved_bytes"`
	PeakPages   int   `json:"peak_pages"`
	// TransferSeconds is how long copies between device and host took, most of them while calls ran; TransferWaitSeconds, a part of
	// HostSeconds, is what they kept the device waiting: to gather and to place pages, and for copies that had not come to their end.
	TransferSeconds     float64 `json:"transfer_seconds"`
	TransferWaitSeconds float64 `json:"transfer_wait_seconds"`
}

// Calls is how many calls of the device have ended in this run: a sign of life that may be asked for at any time.
func (e *Engine) Calls() int64 { return e.calls.Load() }

// Stats returns the figures of the last run, or of the one under way as far as it came when it ends.
func (e *Engine) Stats() Stats { return e.stats }

// stepCost fits seconds = prefill steps * a + decode steps * b over calls.
type stepCost struct {
	pp, pd, dd, ps, ds float64 // sums of products of the two counts and the seconds
}

func (c *stepCost) add(prefillSteps, decodeSteps int, seconds float64) {
	p, d := float64(prefillSteps), float64(decodeSteps)
	c.pp += p * p
	c.pd += p * d
	c.dd += d * d
	c.ps += p * seconds
	c.ds += d * seconds
}

// split shares out the seconds of all calls.
func (c *stepCost) split(prefillSteps, decodeSteps int, seconds float64) (prefill, decode float64) {
	p, d := float64(prefillSteps), float64(decodeSteps)
	if p+d == 0 {
		return 0, 0
	}
	prefill = p / (p + d) // where the calls do not tell them apart: all steps alike
	if det := c.pp*c.dd - c.pd*c.pd; det > 1e-9*c.pp*c.dd {
		a, b := max(0, (c.ps*c.dd-c.ds*c.pd)/det), max(0, (c.ds*c.pp-c.ps*c.pd)/det)
		if total := a*p + b*d; total > 0 {
			prefill = a * p / total
		}
	}
	return prefill * seconds, (1 - prefill) * seconds
}
