package model

import (
	"slices"

	"github.com/quire/quire/engine/schedule"
)

func (c *call) wantsDecode() bool {
	queued := slices.ContainsFunc(c.rows[:c.Slots], func(r row) bool { return r.queued != nil })
	waits := c.placed < len(c.in.Waiting) || c.openedHere < len(c.in.Ahead)
	early := len(c.freeSlots()) >= c.in.EnoughFree && !waits && c.out.Columns > 0
	return queued && c.short() == 0 && !early
}

// decode runs the last token of each slot.
func (c *call) decode() {
	need := 0
	for _, r := range c.rows[:c.Slots] {
		if r.queued != nil && r.length%c.PageSize == 0 {
			need++
		}
	}
	c.take(need)
	for row := range c.Slots {
		if c.rows[row].queued != nil {
			c.decodeRow(row)
		}
	}
	c.out.DecodeSteps++
	c.column()
}

func (c *call) decodeRow(row int) {
	r := &c.rows[row]
	c.write(r, r.queued[0])
	r.queued = nil
	c.out.DecodeTokens++
	c.sample(row)
}

// sample generates a token for a slot.
func (c *call) sample(row int) {
	r := &c.rows[row]
	index := int(c.out.Columns)*c.Slots + row
	token, finish := c.Draw(Sequence{c.tokens(r), r.request, r.gen, index})
	c.out.Tokens[index], c.out.Owners[index], c.out.Finish[index] = token, int32(r.owner), int32(finish)
	c.reportTops(r, token, index)
	c.drew = true
	r.drawn++
	if finish == schedule.Running {
		r.queued = []int32{token}
	} else {
		c.release(row)
	}
}

// roomToScore reports whether there are places for the scores of another step.
func (c *call) roomToScore() bool {
	return c.ScorePlaces == 0 || int(c.out.Scores.Count[0])+c.PrefillTokens <= c.ScorePlaces
}

// score scores the token after the one that a row ran last, if it belongs to the prompt.
func (c *call) score(row int) {
	r := &c.rows[row]
	if r.score == 0 || row < c.Slots && r.length == r.promptLen {
		return
	}
	out := &c.out.Scores
	index := out.Count[0]
	out.Count[0]++
	logprob, ids, logprobs := c.Score(c.tokens(r), c.in.Tokens[r.start+r.length], r.score-1)
	out.Owners[index], out.Positions[index], out.Logprobs[index] = int32(r.owner), int32(r.length-1), logprob
	copy(out.TopIDs[int(index)*c.Tops:], ids)
	copy(out.TopLogprobs[int(index)*c.Tops:], logprobs)
}

// reportTops reports the likeliest tokens with a generated one, if the request asks for them.
func (c *call) reportTops(r *row, token int32, index int) {
	if n := r.request.Tops; n > 0 {
		_, ids, logprobs := c.Score(c.tokens(r), token, n)
		copy(c.out.TopIDs[index*c.Tops:], ids)
		copy(c.out.TopLogprobs[index*c.Tops:], logprobs)
	}
}
