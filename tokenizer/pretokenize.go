package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// piece is a stretch of text that the model encodes on its own.
type piece struct {
	text    string
	atStart bool
}

// preTokenizer cuts a piece into smaller ones, appended to out.
type preTokenizer func(out []piece, p piece) ([]piece, error)

const maxNesting = 16

var errNesting = errors.New("components are nested too deeply")

type preTokenizerJSON struct {
	Type             string            `json:"type"`
	PreTokenizers    []json.RawMessage `json:"pretokenizers"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex         *bool             `json:"use_regex"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            *bool             `json:"split"`
	Pattern          patternJSON       `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	IndividualDigits bool              `json:"individual_digits"`
	Delimiter        string            `json:"delimiter"`
}

// parsePreTokenizer returns the steps of a pre-tokenizer, and whether the last
// of them is ByteLevel, so that the model sees the byte-level alphabet.
func parsePreTokenizer(raw json.RawMessage, depth int) (steps []preTokenizer, byteLevel bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	if depth > maxNesting {
		return nil, false, errNesting
	}
	var p preTokenizerJSON
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch p.Type {
	case "Sequence":
		for _, child := range p.PreTokenizers {
			if byteLevel {
				return nil, false, errors.New("pre_tokenizer ByteLevel must be the last of its Sequence")
			}
			more, bytes, err := parsePreTokenizer(child, depth+1)
			if err != nil {
				return nil, false, err
			}
			steps, byteLevel = append(steps, more...), bytes
		}
		return steps, byteLevel, nil
	case "ByteLevel":
		if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
			steps = append(steps, addPrefixSpace)
		}
		if p.UseRegex == nil || *p.UseRegex {
			steps = append(steps, scanAll(scanGPT2))
		}
		return steps, true, nil
	case "Whitespace":
		return []preTokenizer{wordsAndSigns}, false, nil
	case "WhitespaceSplit":
		return []preTokenizer{whitespaceOnly}, false, nil
	case "BertPreTokenizer":
		return []preTokenizer{bertWords}, false, nil
	case "Punctuation":
		step, err := punctuation(p.Behavior)
		return []preTokenizer{step}, false, err
	case "CharDelimiterSplit":
		delimiter := p.Delimiter
		return []preTokenizer{func(out []piece, q piece) ([]piece, error) {
			return removed.apply(out, q, findAll(q.text, delimiter), false), nil
		}}, false, nil
	case "Digits":
		return []preTokenizer{digits(p.IndividualDigits)}, false, nil
	case "Metaspace":
		step, err := newMetaspace(p)
		return []preTokenizer{step}, false, err
	case "Split":
		step, err := newSplit(p)
		return []preTokenizer{step}, false, err
	}
	return nil, false,
		fmt.Errorf("pre_tokenizer %q is not supported (supported: Sequence, ByteLevel, Digits, Metaspace, Split, "+
			"Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, CharDelimiterSplit)", p.Type)
}

func punctuation(name string) (preTokenizer, error) {
	b, ok := behaviors[name]
	if !ok && name != "" {
		return nil, fmt.Errorf("pre_tokenizer Punctuation: behavior %q is not known", name)
	} else if !ok {
		b = isolated
	}
	return func(out []piece, p piece) ([]piece, error) {
		return b.apply(out, p, spansOf(p.text, isBertPunctuation), false), nil
	}, nil
}

func addPrefixSpace(out []piece, p piece) ([]piece, error) {
	if p.text != "" && p.text[0] != ' ' {
		p.text = " " + p.text
	}
	return append(out, p), nil
}

func scanAll(scan scanner) preTokenizer {
	return func(out []piece, p piece) ([]piece, error) {
		table := classTable()
		for s := p.text; s != ""; {
			n := scan(table, s)
			out = append(out, piece{s[:n], p.atStart && len(s) == len(p.text)})
			s = s[n:]
		}
		return out, nil
	}
}

func digits(individual bool) preTokenizer {
	b := contiguous
	if individual {
		b = isolated
	}
	return func(out []piece, p piece) ([]piece, error) {
		var spans []span
		for i, r := range p.text {
			if isDigit(r) {
				spans = append(spans, span{i, i + utf8.RuneLen(r)})
			}
		}
		return b.apply(out, p, spans, false), nil
	}
}

// newMetaspace writes spaces as the replacement character and, by
// prepend_scheme, puts one in front.
func newMetaspace(p preTokenizerJSON) (preTokenizer, error) {
	if utf8.RuneCountInString(p.Replacement) != 1 {
		return nil, fmt.Errorf("pre_tokenizer Metaspace: replacement %q is not one character", p.Replacement)
	}
	scheme, err := prependScheme(p.PrependScheme, p.AddPrefixSpace)
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer Metaspace: %w", err)
	}
	split := p.Split == nil || *p.Split
	mark := p.Replacement
	return func(out []piece, p piece) ([]piece, error) {
		text := strings.ReplaceAll(p.text, " ", mark)
		if !strings.HasPrefix(text, mark) && text != "" && (scheme == "always" || scheme == "first" && p.atStart) {
			text = mark + text
		}
		p.text = text
		if !split {
			return append(out, p), nil
		}
		return mergedWithNext.apply(out, p, findAll(text, mark), false), nil
	}, nil
}

// prependScheme reads Metaspace's prepend_scheme, or the flag that older files
// have in its place.
func prependScheme(scheme string, addPrefixSpace *bool) (string, error) {
	switch {
	case scheme == "always" || scheme == "first" || scheme == "never":
		return scheme, nil
	case scheme != "":
		return "", fmt.Errorf("prepend_scheme %q is none of always, first, never", scheme)
	case addPrefixSpace != nil && !*addPrefixSpace:
		return "never", nil
	}
	return "always", nil
}

func newSplit(p preTokenizerJSON) (preTokenizer, error) {
	b, ok := behaviors[p.Behavior]
	if !ok {
		return nil, fmt.Errorf("pre_tokenizer Split: behavior %q is not known", p.Behavior)
	}
	switch {
	case p.Pattern.String != nil:
		pattern := *p.Pattern.String
		return func(out []piece, q piece) ([]piece, error) {
			return b.apply(out, q, findAll(q.text, pattern), p.Invert), nil
		}, nil
	case p.Pattern.Regex != nil:
		pattern := *p.Pattern.Regex
		if scan := scanners[pattern]; scan != nil {
			// Every character is in a match, so Isolated and inverted Removed are the matches.
			if b == isolated || b == removed && p.Invert {
				return scanAll(scan), nil
			}
		}
		re, err := compilePattern(pattern)
		if err != nil {
			return nil, fmt.Errorf("pre_tokenizer Split: %w", err)
		}
		return func(out []piece, q piece) ([]piece, error) {
			spans, err := re.findAll(q.text)
			if err != nil {
				return nil, err
			}
			return b.apply(out, q, spans, p.Invert), nil
		}, nil
	}
	return nil, errors.New("pre_tokenizer Split has no pattern")
}

// span is a match, [start, end) in bytes.
type span struct{ start, end int }

func findAll(s, pattern string) []span {
	if pattern == "" {
		return nil
	}
	var spans []span
	for at := 0; ; {
		i := strings.Index(s[at:], pattern)
		if i < 0 {
			return spans
		}
		spans = append(spans, span{at + i, at + i + len(pattern)})
		at += i + len(pattern)
	}
}

// behavior says what becomes of the matches of a split (SplitDelimiterBehavior).
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// apply cuts p at the matches (in order, not overlapping).
func (b behavior) apply(out []piece, p piece, matches []span, invert bool) []piece {
	type part struct {
		span
		match bool
	}
	parts := make([]part, 0, 2*len(matches)+1)
	at := 0
	for _, m := range matches {
		if at < m.start {
			parts = append(parts, part{span{at, m.start}, invert})
		}
		parts = append(parts, part{m, !invert})
		at = m.end
	}
	if at < len(p.text) {
		parts = append(parts, part{span{at, len(p.text)}, invert})
	}

	var kept []part
	switch b {
	case isolated:
		kept = parts
	case removed:
		for _, q := range parts {
			if !q.match {
				kept = append(kept, q)
			}
		}
	case contiguous, mergedWithPrevious:
		for i, q := range parts {
			join := i > 0 && (b == contiguous && q.match == parts[i-1].match ||
				b == mergedWithPrevious && q.match && !parts[i-1].match)
			if join {
				kept[len(kept)-1].end = q.end
			} else {
				kept = append(kept, q)
			}
		}
	case mergedWithNext:
		for i, q := range parts {
			if i > 0 && !q.match && parts[i-1].match {
				kept[len(kept)-1].end = q.end
			} else {
				kept = append(kept, q)
			}
		}
	}
	for _, q := range kept {
		if q.start < q.end {
			out = append(out, piece{p.text[q.start:q.end], p.atStart && q.start == 0})
		}
	}
	return out
}
