package pretoken

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

type preTokenizerJSON struct {
	Type             string            `json:"type"`
	PreTokenizers    []json.RawMessage `json:"pretokenizers"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex         *bool             `json:"use_regex"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            *bool             `json:"split"`
	Pattern          PatternJSON       `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	IndividualDigits bool              `json:"individual_digits"`
	Delimiter        string            `json:"delimiter"`
}

// ParseSplitters returns the steps of a pre-tokenizer, and whether the last one is ByteLevel, so that the model sees
// the byte-level alphabet.
func ParseSplitters(raw json.RawMessage, depth int) (steps []Splitter, byteLevel bool, err error) {
	if IsNull(raw) {
		return nil, false, nil
	}
	if depth > MaxNesting {
		return nil, false, ErrNesting
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
			more, bytes, err := ParseSplitters(child, depth+1)
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
			steps = append(steps, GPT2)
		}
		return steps, true, nil
	case "Whitespace":
		return []Splitter{wordsAndSigns}, false, nil
	case "WhitespaceSplit":
		return []Splitter{whitespaceOnly}, false, nil
	case "BertPreTokenizer":
		return []Splitter{bertWords}, false, nil
	case "Punctuation":
		step, err := Punctuation(p.Behavior)
		return []Splitter{step}, false, err
	case "CharDelimiterSplit":
		delimiter := p.Delimiter
		return []Splitter{func(out []Piece, q Piece) ([]Piece, error) {
			return removed.apply(out, q, findAll(q.Text, delimiter), false), nil
		}}, false, nil
	case "Digits":
		return []Splitter{Digits(p.IndividualDigits)}, false, nil
	case "Metaspace":
		step, err := newMetaspace(p)
		return []Splitter{step}, false, err
	case "Split":
		step, err := newSplit(p)
		return []Splitter{step}, false, err
	}
	return nil, false,
		fmt.Errorf("pre_tokenizer %q is not supported (supported: Sequence, ByteLevel, Digits, Metaspace, Split, "+
			"Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, CharDelimiterSplit)", p.Type)
}

// Split runs a text through steps and appends the pieces to out. atStart reports whether the input begins with the
// text.
func Split(steps []Splitter, out []Piece, text string, atStart bool) ([]Piece, error) {
	out = append(out, Piece{text, atStart})
	for i, step := range steps {
		in := out
		if i > 0 || len(in) != 1 {
			out = make([]Piece, 0, 2*len(in))
		} else {
			one := in[0]
			in, out = []Piece{one}, out[:0]
		}
		var err error
		for _, p := range in {
			if out, err = step(out, p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func Punctuation(name string) (Splitter, error) {
	b, ok := behaviors[name]
	if !ok && name != "" {
		return nil, fmt.Errorf("pre_tokenizer Punctuation: behavior %q is not known", name)
	} else if !ok {
		b = isolated
	}
	return func(out []Piece, p Piece) ([]Piece, error) {
		return b.apply(out, p, spansOf(p.Text, isBertPunctuation), false), nil
	}, nil
}

func addPrefixSpace(out []Piece, p Piece) ([]Piece, error) {
	if p.Text != "" && p.Text[0] != ' ' {
		p.Text = " " + p.Text
	}
	return append(out, p), nil
}

func scanAll(scan scanner) Splitter {
	return func(out []Piece, p Piece) ([]Piece, error) {
		table := classTable()
		for s := p.Text; s != ""; {
			n := scan(table, s)
			out = append(out, Piece{s[:n], p.atStart && len(s) == len(p.Text)})
			s = s[n:]
		}
		return out, nil
	}
}

func Digits(individual bool) Splitter {
	b := contiguous
	if individual {
		b = isolated
	}
	return func(out []Piece, p Piece) ([]Piece, error) {
		var spans []span
		for i, r := range p.Text {
			if isDigit(r) {
				spans = append(spans, span{i, i + utf8.RuneLen(r)})
			}
		}
		return b.apply(out, p, spans, false), nil
	}
}

// newMetaspace replaces spaces by the replacement character and, depending on prepend_scheme, adds one in front.
func newMetaspace(p preTokenizerJSON) (Splitter, error) {
	if utf8.RuneCountInString(p.Replacement) != 1 {
		return nil, fmt.Errorf("pre_tokenizer Metaspace: replacement %q is not one character", p.Replacement)
	}
	scheme, err := PrependScheme(p.PrependScheme, p.AddPrefixSpace)
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer Metaspace: %w", err)
	}
	split := p.Split == nil || *p.Split
	mark := p.Replacement
	return func(out []Piece, p Piece) ([]Piece, error) {
		text := strings.ReplaceAll(p.Text, " ", mark)
		if !strings.HasPrefix(text, mark) && text != "" && (scheme == "always" || scheme == "first" && p.atStart) {
			text = mark + text
		}
		p.Text = text
		if !split {
			return append(out, p), nil
		}
		return mergedWithNext.apply(out, p, findAll(text, mark), false), nil
	}, nil
}

// PrependScheme reads Metaspace's prepend_scheme, or the flag that older files have instead.
func PrependScheme(scheme string, addPrefixSpace *bool) (string, error) {
	switch {
	case scheme == "always" || scheme == "first" || scheme == "never":
		return scheme, nil
	case scheme != "":
		return "", fmt.Errorf("prepend_scheme %q is not always, first or never", scheme)
	case addPrefixSpace != nil && !*addPrefixSpace:
		return "never", nil
	}
	return "always", nil
}

// GPT2 splits as GPT-2 does.
var GPT2 = scanAll(scanGPT2)

// Isolate splits at the matches of a regular expression, which are pieces, too.
func Isolate(regex string) (Splitter, error) {
	return newSplit(preTokenizerJSON{Behavior: "Isolated", Pattern: PatternJSON{Regex: &regex}})
}

func newSplit(p preTokenizerJSON) (Splitter, error) {
	b, ok := behaviors[p.Behavior]
	if !ok {
		return nil, fmt.Errorf("pre_tokenizer Split: behavior %q is not known", p.Behavior)
	}
	switch {
	case p.Pattern.String != nil:
		pattern := *p.Pattern.String
		return func(out []Piece, q Piece) ([]Piece, error) {
			return b.apply(out, q, findAll(q.Text, pattern), p.Invert), nil
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
		return func(out []Piece, q Piece) ([]Piece, error) {
			spans, err := re.findAll(q.Text)
			if err != nil {
				return nil, err
			}
			return b.apply(out, q, spans, p.Invert), nil
		}, nil
	}
	return nil, errors.New("pre_tokenizer Split has no pattern")
}
