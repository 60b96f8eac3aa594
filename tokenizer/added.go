package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in the text before anything else.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// segment is a stretch of text, or an added token found in it (token >= 0).
// atStart says that it begins where the whole input does.
type segment struct {
	text    string
	token   int32
	atStart bool
}

// addedMatcher finds added tokens, leftmost first, of those the longest.
type addedMatcher struct {
	tokens []addedToken
	trie   // of indices into tokens
}

// newAddedMatcher matches each token by the text that written gives for it.
func newAddedMatcher(tokens []addedToken, written func(string) string) *addedMatcher {
	m := &addedMatcher{tokens, newTrie(0)}
	for i, t := range tokens {
		m.add(written(t.Content), int32(i))
	}
	return m
}

// find returns the first match in s at or after from.
func (m *addedMatcher) find(s string, from int) (start, end int, token *addedToken) {
	for i := from; i < len(s); i++ {
		node := m.root[s[i]]
		for j := i + 1; node != 0; j++ {
			if k := m.ends[node]; k >= 0 {
				start, end, token = i, j, &m.tokens[k]
			}
			if j == len(s) {
				break
			}
			node = m.step(node, s[j])
		}
		if token != nil {
			return start, end, token
		}
	}
	return 0, 0, nil
}

// prefix returns the length of the longest match at the start of s, 0 for none.
func (m *addedMatcher) prefix(s string) (longest int) {
	m.prefixes(s, func(length int, _ int32) { longest = length })
	return longest
}

// split appends the segments of s to out.
func (m *addedMatcher) split(out []segment, s string, atStart bool) []segment {
	if len(m.tokens) == 0 {
		if s != "" {
			out = append(out, segment{s, -1, atStart})
		}
		return out
	}
	done := 0
	for from := 0; ; {
		start, end, token := m.find(s, from)
		if token == nil {
			break
		}
		from = end // the search goes on behind the match even if it is turned down
		if token.SingleWord && (endsWithWord(s[:start]) || startsWithWord(s[end:])) {
			continue
		}
		if token.LStrip {
			start = max(done, len(strings.TrimRightFunc(s[:start], unicode.IsSpace)))
		}
		if token.RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if start >= end { // a token before it took its space: tokenizers drops what has no text
			continue
		}
		if done < start {
			out = append(out, segment{s[done:start], -1, atStart && done == 0})
		}
		out = append(out, segment{"", token.ID, false})
		done = end
	}
	if done < len(s) {
		out = append(out, segment{s[done:], -1, atStart && done == 0})
	}
	return out
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWordChar(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWordChar(r)
}
