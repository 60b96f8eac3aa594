package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"

	"github.com/quire/quire/data/parameter"
)

// ApplyConfig sets every flag that a YAML file gives and the command line does not. The file's keys are the flags'
// names; lists give flags that may be repeated. Keys in except make no sense there.
func ApplyConfig(path string, f *Flags, except ...string) (err error) {
	defer func() { // no text may end the process by what the YAML library panics at
		if p := recover(); p != nil {
			err = fmt.Errorf("%s can't be read as YAML: %v", path, p)
		}
	}()
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), 0) // skips a byte order mark
	if err != nil {
		return fmt.Errorf("%s is not YAML: %s", path, yaml.FormatError(err, false, true))
	}
	known := slices.DeleteFunc(f.names(), func(name string) bool { return slices.Contains(except, name) })
	for _, doc := range file.Docs {
		entries, err := mapping(doc.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, entry := range entries {
			name := string(dashed(nil, entry.Key.GetToken().Value))
			where := fmt.Sprintf("%s:%d", path, entry.Key.GetToken().Position.Line)
			if !slices.Contains(known, name) {
				return fmt.Errorf("%s: unknown key %q%s", where, name, DidYouMean(name, known, ""))
			}
			flag := f.Set.Lookup(name)
			if flag.Changed {
				continue // flags win
			}
			_ = f.Set.SetAnnotation(name, GivenInConfig, []string{path})
			values, err := values(entry.Value, flag)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", where, name, err)
			}
			if _, repeatable := flag.Value.(interface{ GetSlice() []string }); !repeatable && len(values) != 1 {
				return fmt.Errorf("%s: %s takes one value, not %d", where, name, len(values))
			}
			for _, v := range values {
				var out *RangeError
				if err := flag.Value.Set(v); errors.As(err, &out) {
					return fmt.Errorf("%s: %s is %w", where, name, out)
				} else if err != nil {
					return fmt.Errorf("%s: %s: %w", where, name, typeError(flag, v, err))
				}
			}
		}
	}
	return nil
}

// GivenInConfig notes with a flag that a config file gives it.
const GivenInConfig = "in config"

// Given reports whether a flag is given, on the command line or in a config file. A flag that does not exist is not.
func Given(flag *pflag.Flag) bool {
	return flag != nil && (flag.Changed || flag.Annotations[GivenInConfig] != nil)
}

// GivenParameters are the parameters of rows that flags or config files give.
func GivenParameters(s *pflag.FlagSet) (names []string) {
	for p := range parameter.Own() {
		f := s.Lookup(p.Flag)
		if Given(f) {
			names = append(names, p.Name)
		}
	}
	return names
}

func mapping(node ast.Node) ([]*ast.MappingValueNode, error) {
	switch node := node.(type) {
	case nil, *ast.CommentGroupNode:
		return nil, nil
	case *ast.MappingNode:
		return node.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, nil
	}
	return nil, fmt.Errorf("keys with values are wanted, such as \"max-tokens: 64\"")
}

// values returns the texts that a flag is set to. A flag that takes JSON may have it as YAML.
func values(node ast.Node, flag *pflag.Flag) ([]string, error) {
	v, ok := flag.Value.(interface{ TakesJSON() bool })
	if ok && v.TakesJSON() && !slices.Contains(scalarTypes, node.Type()) {
		text, err := yaml.YAMLToJSON([]byte(node.String()))
		return []string{string(text)}, err
	}
	return scalars(node)
}

var scalarTypes = []ast.NodeType{ast.StringType, ast.LiteralType, ast.NullType}

// scalars returns the texts of a scalar or of a list of scalars.
func scalars(node ast.Node) ([]string, error) {
	items := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		items = list.Values
	}
	var texts []string
	for _, item := range items {
		scalar, ok := item.(ast.ScalarNode)
		if !ok || item.Type() == ast.NullType {
			return nil, fmt.Errorf("a value or a list of values is wanted")
		}
		if s, ok := item.(*ast.IntegerNode); ok { // as written: a seed may need all 64 bits
			texts = append(texts, s.Token.Value)
			continue
		}
		texts = append(texts, fmt.Sprint(scalar.GetValue()))
	}
	return texts, nil
}

// RefuseGiven refuses flags that are given.
func RefuseGiven(f *Flags, names []string, why string) error {
	for _, name := range names {
		if Given(f.Set.Lookup(name)) {
			return fmt.Errorf("--%s %s", name, why)
		}
	}
	return nil
}
