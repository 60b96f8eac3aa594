package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// addedToken is a token that is searched for in the text before anything else.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// segment is a part of the text, or an added token found in it (token >= 0). It is the bytes from start to before end.
// atStart reports whether it begins where the whole input begins.
type segment struct {
	text       string
	token      int32
	atStart    bool
	start, end int
}

// addedMatcher finds added tokens: the leftmost, and of several there the longest.
type addedMatcher struct {
	tokens []addedToken
	texts  model.Trie // of indices into tokens
}

// newAddedMatcher matches each token by the text that written returns for it.
func newAddedMatcher(tokens []addedToken, written func(string) string) *addedMatcher {
	m := &addedMatcher{tokens, model.NewTrie(0)}
	for i, t := range tokens {
		m.texts.Add(written(t.Content), int32(i))
	}
	return m
}

// find returns the first match in s at or after from.
func (m *addedMatcher) find(s string, from int) (start, end int, token *addedToken) {
	for i := from; i < len(s); i++ {
		if length, k := m.texts.Longest(s, i); length > 0 {
			return i, i + length, &m.tokens[k]
		}
	}
	return 0, 0, nil
}

// prefix returns the length of the longest match at the start of s, 0 for none.
func (m *addedMatcher) prefix(s string) int {
	if s == "" {
		return 0
	}
	length, _ := m.texts.Longest(s, 0)
	return length
}

// split appends the segments of s to out.
func (m *addedMatcher) split(out []segment, s string, atStart bool) []segment {
	if len(m.tokens) == 0 {
		if s != "" {
			out = append(out, segment{s, -1, atStart, 0, len(s)})
		}
		return out
	}
	done := 0
	for from := 0; ; {
		start, end, token := m.find(s, from)
		if token == nil {
			break
		}
		from = end // the search continues after the match even if it is rejected
		if token.SingleWord && (endsWithWord(s[:start]) || startsWithWord(s[end:])) {
			continue
		}
		if token.LStrip {
			start = max(done, len(strings.TrimRightFunc(s[:start], unicode.IsSpace)))
		}
		if token.RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if start >= end { // a previous token took its space: tokenizers drops matches without text
			continue
		}
		if done < start {
			out = append(out, segment{s[done:start], -1, atStart && done == 0, done, start})
		}
		out = append(out, segment{"", token.ID, false, start, end})
		done = end
	}
	if done < len(s) {
		out = append(out, segment{s[done:], -1, atStart && done == 0, done, len(s)})
	}
	return out
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && pretoken.IsWordChar(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && pretoken.IsWordChar(r)
}
