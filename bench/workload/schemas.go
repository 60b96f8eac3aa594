package workload

import (
	"fmt"
	"strings"
)

// schema is the k-th of a workload's JSON schemas, all different: an object of properties with names of its own, of all
// types, whose shortest text has more tokens than a row generates.
func schema(k, maxTokens int) string {
	var properties, required []string
	for i := 0; 4*i < maxTokens; i++ {
		name := fmt.Sprintf("%s_%d_%d", []string{"name", "age", "kind", "tags", "active", "score"}[i%6], k, i)
		value := []string{
			`{"type": "string", "maxLength": 40}`,
			fmt.Sprintf(`{"type": "integer", "minimum": 0, "maximum": %d}`, 100+k),
			fmt.Sprintf(`{"enum": ["first %d", "second", "third"]}`, k),
			`{"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3}`,
			`{"type": "boolean"}`,
			`{"type": "number"}`,
		}[i%6]
		properties = append(properties, fmt.Sprintf("%q: %s", name, value))
		required = append(required, fmt.Sprintf("%q", name))
	}
	return fmt.Sprintf(`{"type": "object", "properties": {%s}, "required": [%s], "additionalProperties": false}`,
		strings.Join(properties, ", "), strings.Join(required, ", "))
}
