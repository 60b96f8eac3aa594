package jsonl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/quire/quire/data/promptset/answers"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/promptset/schema"
)

// promptOf returns the prompt of a JSONL row, from a column of the input if one is named.
func promptOf(all []jsonvalue.Member, column string) string {
	row := &record.Builder{Row: &record.Row{}}
	if requests.Is(all) {
		return requests.PromptText(all)
	}
	if column != "" {
		var names []string
		for _, m := range all {
			names = append(names, m.Key)
		}
		i := completion.PassedAt(column, names)
		if i >= 0 && !jsonvalue.IsNull(all[i].Raw) && row.DecodeKnown("prompt", all[i].Raw) {
			row.Kind = record.KindText
		}
		return row.PromptText()
	}
	for _, name := range schema.PromptNames {
		i := slices.IndexFunc(all, func(m jsonvalue.Member) bool { return m.Key == name })
		if i >= 0 && !jsonvalue.IsNull(all[i].Raw) && row.DecodeKnown(name, all[i].Raw) {
			row.Kind = record.PromptKinds[name]
			break
		}
	}
	return row.PromptText()
}

// ReadPart calls each for every row of a JSONL part from a row on. Lines of an output file of OpenAI's batch API, by
// any program, are recognized.
func ReadPart(in io.ReaderAt, size, from int64, each func(*completion.Completion) error) (map[string]string, error) {
	asAnswers := false
	return nil, lines.EachCompletion(in, size, from, func(raw []byte, all []jsonvalue.Member,
		first bool) ([]*completion.Completion, error) {
		if asAnswers = asAnswers || first && answers.Is(all); asAnswers {
			return answers.Completions(raw, all, first)
		}
		return rowOf(raw, all, first)
	}, each)
}

// rowOf returns the completion in a line.
func rowOf(_ []byte, all []jsonvalue.Member, first bool) ([]*completion.Completion, error) {
	if first {
		has := func(name string) bool {
			return slices.ContainsFunc(all, func(m jsonvalue.Member) bool { return m.Key == name })
		}
		if err := completion.CheckColumns(has, "%s is missing"); err != nil {
			return nil, err
		}
	}
	id, r, err := completion.ResultOf(all)
	if err != nil {
		return nil, err
	}
	return []*completion.Completion{{ID: id, Result: *r, Members: all,
		ReadPrompt: func(column string) string { return promptOf(all, column) }}}, nil
}

// ReadValues calls each with the values of keys, for every line.
func ReadValues(name string, in io.ReaderAt, size int64, names []string, each func([]any) error) error {
	l, err := lines.Open(name, io.NewSectionReader(in, 0, size))
	if err != nil {
		return err
	}
	defer l.Close()
	values := make([]any, len(names))
	for {
		line, err := l.Next()
		if err == io.EOF {
			return nil
		}
		var all []jsonvalue.Member
		if err == nil {
			all, err = jsonvalue.ParseRow(line)
		}
		for i := 0; i < len(names) && err == nil; i++ {
			if raw := jsonvalue.Find(all, names[i]); raw == nil {
				err = fmt.Errorf("it has no key %s", names[i])
			} else {
				values[i], err = scalarOf(names[i], raw)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.Number, err)
		}
		if err := each(values); err != nil {
			return err
		}
	}
}

func scalarOf(name string, raw json.RawMessage) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		return nil, fmt.Errorf("%s is %s", name, jsonvalue.Describe(raw))
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, fmt.Errorf("%s is %s, which is not a number that fits", name, raw)
	}
	return f, nil
}
