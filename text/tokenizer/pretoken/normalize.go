package pretoken

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/quire/quire/text/tokenizer/model"
)

type normalizerJSON struct {
	Type        string            `json:"type"`
	Normalizers []json.RawMessage `json:"normalizers"`
	Prepend     string            `json:"prepend"`
	Pattern     PatternJSON       `json:"pattern"`
	Content     string            `json:"content"`
	Left        *bool             `json:"strip_left"`
	Right       *bool             `json:"strip_right"`
	Clean       *bool             `json:"clean_text"`
	Chinese     *bool             `json:"handle_chinese_chars"`
	Accents     *bool             `json:"strip_accents"`
	Lower       *bool             `json:"lowercase"`
}

func ParseNormalizer(raw json.RawMessage, depth int) (Normalizer, error) {
	if IsNull(raw) {
		return nil, nil
	}
	if depth > MaxNesting {
		return nil, ErrNesting
	}
	var n normalizerJSON
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	switch n.Type {
	case "Sequence":
		var steps []Normalizer
		for _, child := range n.Normalizers {
			step, err := ParseNormalizer(child, depth+1)
			if err != nil {
				return nil, err
			}
			if step != nil {
				steps = append(steps, step)
			}
		}
		if len(steps) == 0 {
			return nil, nil
		}
		return func(s string) string {
			for _, step := range steps {
				s = step(s)
			}
			return s
		}, nil
	case "NFC":
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Prepend":
		return Prepend(n.Prepend), nil
	case "Replace":
		return n.Pattern.replacer(n.Content)
	case "Lowercase":
		return lowercase, nil
	case "StripAccents":
		return func(s string) string { return dropRunes(s, isAccent) }, nil
	case "Strip":
		return strip(or(n.Left, true), or(n.Right, true)), nil
	case "ByteLevel":
		return model.ToByteLevel, nil
	case "BertNormalizer":
		lower := or(n.Lower, true)
		return bertNormalizer(or(n.Clean, true), or(n.Chinese, true), or(n.Accents, lower), lower), nil
	case "Precompiled":
		return parsePrecompiled(raw)
	}
	return nil, fmt.Errorf("normalizer %q is not supported (supported: Sequence, NFC, NFD, NFKC, NFKD, Prepend, "+
		"Replace, Lowercase, StripAccents, Strip, ByteLevel, BertNormalizer, Precompiled)", n.Type)
}

func strip(left, right bool) Normalizer {
	return func(s string) string {
		if left {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}
}

// simplePattern matches patterns that all engines interpret alike and that do not match the empty text.
var simplePattern = regexp.MustCompile(`^([^][\\.^$|?*+(){}](\+|\{[1-9][0-9]*,[0-9]*\})?)+$`)

// replacer makes a normalizer that replaces each match by with.
func (p PatternJSON) replacer(with string) (Normalizer, error) {
	switch {
	case p.String != nil:
		return Replace(*p.String, with), nil
	case p.Regex != nil:
		if !simplePattern.MatchString(*p.Regex) {
			return nil, fmt.Errorf("normalizer Replace with the pattern %q is not supported (characters, {m,n} "+
				"and + are)", *p.Regex)
		}
		re, err := regexp.Compile(*p.Regex) // runs in linear time, so that a normalizer cannot fail
		if err != nil {
			return nil, fmt.Errorf("normalizer Replace: %w", err)
		}
		return func(s string) string { return re.ReplaceAllLiteralString(s, with) }, nil
	}
	return nil, errors.New("normalizer Replace has no pattern")
}

func Prepend(prefix string) Normalizer {
	return func(s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

func Replace(old, with string) Normalizer {
	return func(s string) string {
		if old == "" {
			return s
		}
		return strings.ReplaceAll(s, old, with)
	}
}
