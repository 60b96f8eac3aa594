package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainYAML matches text that YAML reads as itself without quotes, except words that have a meaning.
var plainYAML = regexp.MustCompile(`^(--)?[A-Za-z][A-Za-z0-9_/.:=@%+-]*$`)

// wordsOfYAML are words that some version of YAML reads as a boolean or null.
var wordsOfYAML = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// yamlText returns a text as YAML. The text is UTF-8. Go's escapes are also YAML's.
func yamlText(text string) string {
	if plainYAML.MatchString(text) && !strings.HasSuffix(text, ":") &&
		!slices.Contains(wordsOfYAML, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// escapeExpansion returns an argument so that Kubernetes, which expands $(NAME), passes it to the process unchanged.
func escapeExpansion(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// plainShell matches text that a shell reads as one word without quotes.
var plainShell = regexp.MustCompile(`^[A-Za-z0-9_/.:=@%+,-]+$`)

// shellWord returns a text as one word of bash. Unprintable characters become escapes, so that the script is text.
func shellWord(text string) string {
	if plainShell.MatchString(text) {
		return text
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return "$'" + escaped(text) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// escaped returns a text for use between $' and '. Bytes are escaped, because escapes of characters depend on the
// locale.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\' || r == '\'':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
	}
	return b.String()
}
