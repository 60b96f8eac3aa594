package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainYAML is text that YAML takes for itself without quotes, but for words that mean something else.
var plainYAML = regexp.MustCompile(`^(--)?[A-Za-z][A-Za-z0-9_/.:=@%+-]*$`)

// wordsOfYAML are words that some version of YAML takes for a truth value or for nothing.
var wordsOfYAML = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// yamlText is a text as YAML, whatever is in it. The text is UTF-8. The escapes of Go are those of YAML.
func yamlText(text string) string {
	if plainYAML.MatchString(text) && !strings.HasSuffix(text, ":") &&
		!slices.Contains(wordsOfYAML, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// escapeExpansion is an argument that Kubernetes, which expands $(NAME), gives to the process as text.
func escapeExpansion(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// plainShell is text that a shell takes for one word as it is.
var plainShell = regexp.MustCompile(`^[A-Za-z0-9_/.:=@%+,-]+$`)

// shellWord is a text as one word of bash. Characters that do not print are escapes, so that the script is text.
func shellWord(text string) string {
	if plainShell.MatchString(text) {
		return text
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return "$'" + escaped(text) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// escaped is a text between $' and '. Escapes are of bytes: those of characters depend on the locale.
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
