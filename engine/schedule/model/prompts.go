package model

import "slices"

func (c *call) remaining(rows []row) (n int) {
	for _, r := range rows {
		if r.used {
			n += max(0, r.promptLen-r.length)
		}
	}
	return n
}

func (c *call) wantsPrefill() bool {
	all := c.remaining(c.rows)
	return c.remaining(c.rows[:c.Slots]) > 0 || c.remaining(c.rows[c.FirstContext():]) > 0 ||
		all > 0 && (len(c.freeSlots()) >= c.fillAt() || all >= c.PrefillTokens)
}

// shares is how many prompt tokens each row runs in a step of prompts.
func (c *call) shares() []int {
	order := make([]int, len(c.rows))
	for row := range order {
		order[row] = row
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if a < c.Slots && b < c.Slots {
			return c.rows[a].turn - c.rows[b].turn
		}
		return a - b
	})
	shares, left := make([]int, len(c.rows)), c.PrefillTokens
	for _, row := range order {
		if r := &c.rows[row]; r.used {
			shares[row] = min(left, max(0, r.promptLen-r.length))
			left -= shares[row]
		}
	}
	return shares
}

// prefill runs prompt tokens: first the tokens of slots, in order of admission; in mixed steps also the tokens of slots
// that decode.
func (c *call) prefill() {
	need, decodes, shares := 0, c.Mixed && c.short() == 0, c.shares()
	for row, r := range c.rows {
		switch n := shares[row]; {
		case decodes && r.queued != nil:
			need += c.pagesOf(r.length+1) - len(r.pages)
		case n > 0:
			need += c.pagesOf(r.length+n) - len(r.pages)
		}
	}
	c.take(need)
	for row := range c.rows {
		r := &c.rows[row]
		if decodes && r.queued != nil {
			c.decodeRow(row)
			continue
		}
		if !r.used || r.promptLen <= r.length {
			continue
		}
		for range shares[row] {
			c.write(r, c.in.Tokens[r.start+r.length])
			c.score(row)
			c.out.PrefillTokens++
		}
		if row < c.Slots && r.length == r.promptLen {
			c.sample(row)
		}
	}
	c.out.PrefillSteps++
	c.column()
}
