package model

import "github.com/quire/quire/engine/schedule"

// newScores makes the places for scores.
func (d *Device) newScores(out *schedule.Output) {
	if d.Tops > 0 {
		n := len(out.Tokens) * d.Tops
		out.TopIDs, out.TopLogprobs = make([]int32, n), make([]float32, n)
	}
	if k := d.ScorePlaces; k > 0 {
		out.Scores = schedule.Scored{Count: make([]int32, 1), Owners: make([]int32, k), Positions: make([]int32, k),
			Logprobs: make([]float32, k), TopIDs: make([]int32, k*d.Tops), TopLogprobs: make([]float32, k*d.Tops)}
	}
}

// roomToScore says that there are places for the scores of another step.
func (c *call) roomToScore() bool {
	return c.ScorePlaces == 0 || int(c.out.Scores.Count[0])+c.PrefillTokens <= c.ScorePlaces
}

// score scores the token behind the one that a row ran last, if that is of its prompt.
func (c *call) score(row int) {
	r := &c.rows[row]
	if r.score == 0 || row < c.Slots && r.length == r.promptLen {
		return
	}
	out := &c.out.Scores
	at := out.Count[0]
	out.Count[0]++
	logprob, ids, logprobs := c.Score(c.tokens(r), c.in.Tokens[r.start+r.length], r.score-1)
	out.Owners[at], out.Positions[at], out.Logprobs[at] = int32(r.owner), int32(r.length-1), logprob
	copy(out.TopIDs[int(at)*c.Tops:], ids)
	copy(out.TopLogprobs[int(at)*c.Tops:], logprobs)
}

// drawTops tells the likeliest tokens with one that is drawn, where they are asked for.
func (c *call) drawTops(r *row, token int32, at int) {
	if n := r.request.Tops; n > 0 {
		_, ids, logprobs := c.Score(c.tokens(r), token, n)
		copy(c.out.TopIDs[at*c.Tops:], ids)
		copy(c.out.TopLogprobs[at*c.Tops:], logprobs)
	}
}
