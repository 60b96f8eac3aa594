package schema

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/regex"
)

// formats are the patterns of the supported formats.
var formats = map[string]string{
	"date":      date,
	"time":      clock,
	"date-time": date + "[tT]" + clock,
	"duration": `P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?|` +
		`T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))`,
	"email":                 atom + `(?:\.` + atom + `)*@` + hostname,
	"hostname":              hostname,
	"ipv4":                  ipv4,
	"ipv6":                  ipv6,
	"uuid":                  `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"uri":                   `[a-zA-Z][a-zA-Z0-9+.\-]*:` + hierarchy,
	"uri-reference":         `(?:[a-zA-Z][a-zA-Z0-9+.\-]*:` + hierarchy + `|` + relative + `)`,
	"json-pointer":          pointer,
	"relative-json-pointer": `(?:0|[1-9][0-9]*)(?:#|` + pointer + `)`,
}

const (
	date = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|` +
		`02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|` +
		`(?:[02468][048]|[13579][26])00)-02-29)`
	clock = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
	// Of RFC 5321 only dot-strings.
	atom     = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
	hostname = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*`
	ipv4     = octet + `\.` + octet + `\.` + octet + `\.` + octet
	octet    = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	h16      = `[0-9a-fA-F]{1,4}`
	ls32     = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	ipv6     = `(?:(?:` + h16 + `:){6}` + ls32 +
		`|::(?:` + h16 + `:){5}` + ls32 +
		`|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:){0,1}` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 +
		`|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 +
		`|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 +
		`|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::)`
	// RFC 3986.
	unreserved = `a-zA-Z0-9._~\-`
	delims     = `!$&'()*+,;=`
	percent    = `%[0-9a-fA-F]{2}`
	pchar      = `(?:[` + unreserved + delims + `:@]|` + percent + `)`
	authority  = `(?:(?:[` + unreserved + delims + `:]|` + percent + `)*@)?(?:\[(?:` + ipv6 + `|[vV][0-9a-fA-F]+\.[` +
		unreserved + delims + `:]+)\]|(?:[` + unreserved + delims + `]|` + percent + `)*)(?::[0-9]*)?`
	tail      = `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
	segments  = `(?:/` + pchar + `*)*`
	hierarchy = `(?://` + authority + segments + `|/(?:` + pchar + `+` + segments + `)?|` + pchar + `+` + segments + `|)` +
		tail
	relative = `(?://` + authority + segments + `|/(?:` + pchar + `+` + segments + `)?|` +
		`(?:[` + unreserved + delims + `@]|` + percent + `)+` + segments + `|)` + tail
	pointer = `(?:/(?:[^/~]|~[01])*)*`
)

// textReader reads the keywords of strings.
type textReader struct {
	b       *automaton.Builder
	parts   *jsontext.Parts
	sets    *regularSets
	formats map[string]automaton.Expr // the expressions made so far, by name
}

func (c *textReader) length(u use) (*form, error) {
	lo, hi := 0, automaton.Unlimited
	var err error
	if v := u.node.v.get("minLength"); v != nil {
		if lo, err = count(v); err != nil {
			return nil, u.node.refuse("minLength", err)
		}
	}
	if v := u.node.v.get("maxLength"); v != nil {
		if hi, err = count(v); err != nil {
			return nil, u.node.refuse("maxLength", err)
		}
	}
	if lo == 0 && hi == automaton.Unlimited {
		return nil, nil
	}
	return onlyTexts(c.parts, c.sets.ofLength(lo, hi)), nil
}

func (c *textReader) pattern(u use) (*form, error) {
	if u.value.kind != stringValue {
		return nil, fmt.Errorf("it is not a text")
	}
	e, err := regex.Search(c.b, u.value.text, c.parts.Characters, c.parts.Plain)
	if err != nil {
		return nil, err
	}
	return onlyTexts(c.parts, e), nil
}

// leapSeconds is the times in a leap second. It is the last second of a day in UTC, so that minutes and hours must fit
// the offset to UTC.
func (c *textReader) leapSeconds() automaton.Expr {
	b, digit := c.b, c.sets.decimals.digit
	two, zulu := b.Repeat(digit, 2, 2), b.Bytes('z', 'z', 'Z', 'Z')
	second := b.Seq(b.Text(":60"), b.Optional(b.Seq(b.Text("."), b.Repeat(digit, 1, automaton.Unlimited))))
	number := func(format string, n int) automaton.Expr { return b.Text(fmt.Sprintf(format, n)) }
	minutes := []automaton.Expr{b.Seq(two, b.Text(":59"), second, zulu)}
	hours := []automaton.Expr{b.Seq(b.Text("23:59"), second, zulu)}
	for m := range 60 {
		minutes = append(minutes, b.Seq(two, number(":%02d", m), second, b.Alt(
			b.Seq(b.Text("+"), two, number(":%02d", (m+1)%60)),
			b.Seq(b.Text("-"), two, number(":%02d", 59-m)))))
	}
	early := b.Alt(b.Seq(b.Bytes('0', '4'), digit), b.Seq(b.Text("5"), b.Bytes('0', '8')))
	for h := range 24 {
		hours = append(hours, b.Seq(number("%02d:", h), b.Alt(
			b.Seq(early, second, number("+%02d:", h)),
			b.Seq(b.Text("59"), second, number("+%02d:", (h+1)%24)),
			b.Seq(two, second, number("-%02d:", 23-h))), two))
	}
	return b.And(b.Alt(minutes...), b.Alt(hours...))
}

// limits are the lengths of RFC 1034 and 5321. codedLabel is the labels with "--" in third place, which are excluded
// because the punycode after it is not checked.
var (
	limits     = map[string]string{"hostname": "^.{1,253}$", "email": "^[^@]{1,64}@[^@]{1,189}$"}
	codedLabel = map[string]string{"hostname": `(?:^|\.)[^.]{2}--`, "email": `@(?:.*\.)?[^.@]{2}--`}
)

// unknownFormats are the standard formats that are not supported. By the standard, all others are annotations.
var unknownFormats = map[string]bool{"idn-email": true, "idn-hostname": true, "iri": true, "iri-reference": true,
	"uri-template": true, "regex": true}

func (c *textReader) format(u use) (*form, error) {
	if u.value.kind != stringValue {
		return nil, fmt.Errorf("it is not a text")
	}
	name := u.value.text
	if unknownFormats[name] {
		return nil, fmt.Errorf("%q is not supported", name)
	}
	pattern, ok := formats[name]
	if !ok {
		return nil, nil
	}
	if e, ok := c.formats[name]; ok {
		return onlyTexts(c.parts, e), nil
	}
	e, err := regex.Search(c.b, "^(?:"+pattern+")$", c.parts.Characters, c.parts.Plain)
	if err != nil {
		return nil, err
	}
	if name == "hostname" || name == "email" {
		limit, err := regex.Search(c.b, limits[name], c.parts.Characters, c.parts.Plain)
		if err != nil {
			return nil, err
		}
		coded, err := regex.Search(c.b, codedLabel[name], c.parts.Characters, c.parts.Plain)
		if err != nil {
			return nil, err
		}
		e = c.sets.intersect(e, c.b.And(limit, c.b.Not(coded)), c.parts.Free)
	}
	switch name {
	case "time":
		e = c.b.Alt(e, c.leapSeconds())
	case "date-time":
		day, err := regex.Search(c.b, "^"+date+"[tT]$", c.parts.Characters, c.parts.Plain)
		if err != nil {
			return nil, err
		}
		e = c.b.Alt(e, c.b.Seq(day, c.leapSeconds()))
	}
	c.formats[name] = e
	return onlyTexts(c.parts, e), nil
}
