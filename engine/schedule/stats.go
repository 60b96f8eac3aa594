package schedule

import "reflect"

// Stats are the figures of a run. Seconds are wall-clock.
type Stats struct {
	// StartSeconds is from the start of New until the weights and the programs that a job starts with are there.
	StartSeconds float64 `json:"start_seconds"`
	WallSeconds  float64 `json:"wall_seconds"`
	// FirstTokenSeconds is from the start of the run until the first token was generated.
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// DeviceSeconds is how long the device ran programs. HostSeconds is the rest of WallSeconds: while nothing runs,
	// the host schedules, builds inputs, copies them to the device and outputs from it, agrees with other processes,
	// ends completions, or waits for requests.
	DeviceSeconds float64 `json:"device_seconds"`
	HostSeconds   float64 `json:"host_seconds"`
	// PrefillSeconds and DecodeSeconds are the parts of DeviceSeconds in which steps of that kind ran, by a clock in
	// the program; the rest is admission. If the device has no clock, see Spent, they are what fits the seconds and
	// steps of all calls best, and FittedSeconds is their sum; 0 if the calls do not tell the kinds apart.
	PrefillSeconds float64 `json:"prefill_seconds,omitempty"`
	DecodeSeconds  float64 `json:"decode_seconds,omitempty"`
	FittedSeconds  float64 `json:"fitted_seconds,omitempty"`

	Requests     int `json:"requests"`
	PromptTokens int `json:"prompt_tokens"` // tokens of the requests' prompts, each counted once
	// PrefillTokens are the prompt tokens that were run: for n completions of a prompt, the whole prompt once and its
	// last token n times.
	PrefillTokens int `json:"prefill_tokens"`
	// HitTokens are the prompt tokens that completions and prefixes took over from a prefix that was there already.
	HitTokens int `json:"hit_tokens"`
	// GeneratedTokens are the tokens of the completions that came out. DrawnTokens are all that the device generated,
	// including tokens after a stop string that the host finds, and tokens of completions that did not finish.
	GeneratedTokens int `json:"generated_tokens"`
	DrawnTokens     int `json:"drawn_tokens"`
	DecodeTokens    int `json:"decode_tokens"` // generated tokens that were run to generate the next
	// DraftedTokens were run before they were generated. AcceptedTokens of them were then generated; they are among
	// DecodeTokens.
	DraftedTokens  int `json:"drafted_tokens,omitempty"`
	AcceptedTokens int `json:"accepted_tokens,omitempty"`
	Calls          int `json:"calls"`
	PrefillSteps   int `json:"prefill_steps"`
	DecodeSteps    int `json:"decode_steps"`
	Pages          int `json:"pages"`
	// MaskReturns are the calls that ended early because rows waited for the host to fill in the masks of their states.
	// MaskWaits is how many tokens such rows did not generate in steps in which others did.
	MaskReturns int `json:"mask_returns,omitempty"`
	MaskWaits   int `json:"mask_waits,omitempty"`
	WeightSwaps int `json:"weight_swaps,omitempty"` // how often other weights took the place of the model's
	// AdapterLoads is how often an adapter was brought to the device, and AdapterSeconds, a part of HostSeconds, how
	// long the device waited for that.
	AdapterLoads   int     `json:"adapter_loads,omitempty"`
	AdapterSeconds float64 `json:"adapter_seconds,omitempty"`
	// Preemptions counts sequences that moved to the host; MovedBytes are the keys and values moved, there and back.
	Preemptions int   `json:"preemptions"`
	MovedBytes  int64 `json:"moved_bytes"`
	PeakPages   int   `json:"peak_pages"`
	// TransferSeconds is how long copies between device and host took, most of them while calls ran.
	// TransferWaitSeconds, a part of HostSeconds, is how long the device waited for them: to gather and to scatter
	// pages, and for copies that had not ended.
	TransferSeconds     float64 `json:"transfer_seconds"`
	TransferWaitSeconds float64 `json:"transfer_wait_seconds"`
}

// TokensAStep returns how many tokens a sequence generated per decode step; 1 without drafts.
func (s Stats) TokensAStep() float64 {
	if drawn := s.DecodeTokens - s.AcceptedTokens; drawn > 0 {
		return float64(s.DecodeTokens) / float64(drawn)
	}
	return 1
}

// Then adds the figures of a later run, on an engine that replaced this one.
func (s Stats) Then(next Stats) Stats {
	sum := next
	to, from := reflect.ValueOf(&sum).Elem(), reflect.ValueOf(s)
	for i := range to.NumField() {
		switch field := to.Field(i); to.Type().Field(i).Name {
		case "Pages":
		case "PeakPages":
			sum.PeakPages = max(s.PeakPages, next.PeakPages)
		case "FirstTokenSeconds":
			if s.FirstTokenSeconds > 0 {
				sum.FirstTokenSeconds = s.FirstTokenSeconds
			} else if next.FirstTokenSeconds > 0 {
				sum.FirstTokenSeconds += s.WallSeconds
			}
		default:
			if field.CanInt() {
				field.SetInt(field.Int() + from.Field(i).Int())
			} else {
				field.SetFloat(field.Float() + from.Field(i).Float())
			}
		}
	}
	return sum
}

// stepClock divides the seconds of calls among the two kinds of steps, for devices without a clock: by the seconds of a
// step of each kind with which the sum of the squares of what calls took beyond their steps is smallest.
type stepClock struct {
	calls                  int
	prefill, decode, total float64
	// Sums over calls of products: of prefill steps (p), decode steps (d) and seconds (s).
	pp, pd, dd, ps, ds float64
}

func (c *stepClock) add(prefillSteps, decodeSteps int32, seconds float64) {
	p, d := float64(prefillSteps), float64(decodeSteps)
	if p+d == 0 {
		return
	}
	c.calls++
	c.prefill, c.decode, c.total = c.prefill+p, c.decode+d, c.total+seconds
	c.pp, c.pd, c.dd, c.ps, c.ds = c.pp+p*p, c.pd+p*d, c.dd+d*d, c.ps+p*seconds, c.ds+d*seconds
}

// Steps of both kinds in much the same proportion in all calls, or in few calls, do not tell what one of them takes.
const (
	fewestClocked = 4
	leastSpread   = 0.01
)

// divide returns the seconds of all steps of each kind, which add up to the seconds of the calls; 0 if they cannot be
// separated.
func (c *stepClock) divide() (prefill, decode float64) {
	if c.prefill == 0 || c.decode == 0 {
		return c.total * min(1, c.prefill), c.total * min(1, c.decode)
	}
	spread := c.pp*c.dd - c.pd*c.pd
	a, b := c.ps*c.dd-c.ds*c.pd, c.ds*c.pp-c.ps*c.pd
	if c.calls < fewestClocked || spread < leastSpread*c.pp*c.dd || a <= 0 || b <= 0 {
		return 0, 0
	}
	prefill, decode = a*c.prefill, b*c.decode
	return c.total * prefill / (prefill + decode), c.total * decode / (prefill + decode)
}
