package reply

import (
	"slices"
	"strings"
)

// thinking is a format of reasoning: text between two marks, before the answer.
type thinking struct {
	names      []string // vLLM's names
	start, end string
	// alsoStart and alsoEnd are other words of the same marks.
	alsoStart, alsoEnd string
	label              string // a first line of the reasoning that is not part of it
	harmony            bool   // the format of harmony's messages
}

var thinkings = []thinking{
	{names: []string{"mistral"}, start: "[THINK]", end: "[/THINK]"},
	{names: []string{"seed_oss"}, start: "<seed:think>", end: "</seed:think>"},
	{names: []string{"gemma4"}, start: "<|channel>", end: "<channel|>", label: "thought"},
	{names: []string{"granite"}, start: "Here is my thought process:", end: "Here is my response:",
		alsoStart: "Here's my thought process:", alsoEnd: "Here's my response:"},
	{names: []string{"qwen3", "deepseek_r1", "deepseek_v3", "deepseek_v4", "glm45", "kimi_k2", "olmo3"},
		start: "<think>", end: "</think>"},
	{names: []string{"openai_gptoss"}, start: channelMark + "analysis" + bodyMark, end: messageEnd, harmony: true},
}

func thinkingOf(name string) *thinking {
	for i := range thinkings {
		if slices.Contains(thinkings[i].names, name) {
			return &thinkings[i]
		}
	}
	return nil
}

// thinkingIn returns the format that a chat template uses.
func thinkingIn(template string) *thinking {
	for i := range thinkings {
		if strings.Contains(template, thinkings[i].start) || !thinkings[i].harmony &&
			strings.Contains(template, thinkings[i].end) {
			return &thinkings[i]
		}
	}
	return nil
}

// split returns the reasoning and the rest of the text. The reasoning begins with the text if open is set, if the start
// mark comes first, or if an end mark comes without a start mark; otherwise there is none. Without an end
// mark all of it is reasoning, and it is still open: the completion ended within.
//
// Blank lines around both parts are dropped, because chat templates that join the parts write them.
func (t *thinking) split(text string, open bool) (reasoning, rest string, still bool) {
	if t.harmony {
		reasoning, rest = splitHarmony(text, open)
		return reasoning, rest, false
	}
	trimmed, end := strings.TrimLeft(text, " \n"), t.end
	body, started := strings.CutPrefix(trimmed, t.start)
	if !started && t.alsoStart != "" {
		body, started = strings.CutPrefix(trimmed, t.alsoStart)
	}
	if !started {
		body = text
	}
	if t.alsoEnd != "" {
		if _, mark := first(body, []string{t.end, t.alsoEnd}); mark != "" {
			end = mark
		}
	}
	reasoning, rest, ended := strings.Cut(body, end)
	if !started && !open && (!ended || strings.Contains(reasoning, t.start)) {
		return "", text, false
	}
	return reasoning, strings.TrimLeft(rest, "\n"), !ended
}

// trimmed returns reasoning without its label and without blank lines around it.
func (t *thinking) trimmed(reasoning string) string {
	if tail, labelled := strings.CutPrefix(reasoning, t.label); labelled && (tail == "" || tail[0] == '\n') {
		reasoning = tail
	}
	return strings.Trim(reasoning, "\n")
}
