package sentence

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// Late is what a checkpoint for late interaction says (ColBERT), which has a vector for each token of a text.
type Late struct {
	Query, Document Side
}

// Side is how texts of queries, or of documents, become tokens and vectors.
type Side struct {
	// Marker is a token that follows the first one of a text; "" for none.
	Marker string
	Prompt string // text before each text
	// MaxTokens bounds the tokens of a text, the marker included; 0: the model's MaxTokens bound it.
	MaxTokens int
	// Filled is how many tokens a text has at least: more follow a shorter one, which have vectors too. 0: none follow.
	Filled int
	// Filler is that token; "" is the tokenizer's mask.
	Filler string
	// Attended reports whether tokens attend to these, and not only these to the others.
	Attended bool
	// Skipped are the tokens whose vectors are left out.
	Skipped []string
}

// Names of the sides, as sentence-transformers and [Settings].Prompts have them.
const (
	Query    = "query"
	Document = "document"
)

// Side returns the side of a name; "" is a document.
func (l *Late) Side(name string) (Side, error) {
	switch name {
	case Query:
		return l.Query, nil
	case "", Document:
		return l.Document, nil
	}
	return Side{}, fmt.Errorf("is %q, and a model for late interaction has the sides %s and %s", name, Query, Document)
}

// Defaults of ColBERT, Stanford's and PyLate's.
const (
	lateFile        = "artifact.metadata"
	queryTokens     = 32
	documentTokens  = 180
	projectionSize  = 128
	maxFilledTokens = 4096
)

// punctuation are the characters of Python's string.punctuation, each a word.
func punctuation() []string { return strings.Split("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "") }

// ReadColBERT reads what a folder of Stanford's ColBERT says, whose model file has the layer after the hidden states.
func ReadColBERT(dir string, hidden int) (Settings, error) {
	config := struct {
		Query       string `json:"query_token_id"`
		Document    string `json:"doc_token_id"`
		QueryMax    int    `json:"query_maxlen"`
		DocumentMax int    `json:"doc_maxlen"`
		Attended    bool   `json:"attend_to_mask_tokens"`
		Punctuation bool   `json:"mask_punctuation"`
		Similarity  string `json:"similarity"`
		Size        int    `json:"dim"`
	}{Punctuation: true}
	if _, err := readJSON(dir, lateFile, &config); err != nil {
		return Settings{}, err
	}
	if s := config.Similarity; s != "" && s != "cosine" {
		return Settings{}, fmt.Errorf("%s: similarity %q is not supported: cosine is", filepath.Join(dir, lateFile), s)
	}
	length := cmp.Or(config.QueryMax, queryTokens)
	late := &Late{
		Query: Side{Marker: cmp.Or(config.Query, "[unused0]"), MaxTokens: length, Filled: length,
			Attended: config.Attended},
		Document: Side{Marker: cmp.Or(config.Document, "[unused1]"), MaxTokens: config.DocumentMax},
	}
	if config.Punctuation {
		late.Document.Skipped = punctuation()
	}
	s := Settings{Pooling: Tokens, Normalize: true, Late: late, Stated: true,
		Dense: []Dense{{In: hidden, Out: cmp.Or(config.Size, projectionSize)}}}
	return s, late.check(filepath.Join(dir, lateFile))
}

// fill is query_expansion, as sentence-transformers has it.
type fill struct {
	Strategy string `json:"strategy"`
	Attended bool   `json:"attend"`
	Token    string `json:"token"`
	Length   int    `json:"length"`
}

// apply sets what a fill says about queries.
func (f *fill) apply(to *Side) error {
	switch f.Strategy {
	case "fixed":
		to.MaxTokens = f.Length
	case "min":
	default:
		return fmt.Errorf("strategy %q of query_expansion is not supported: fixed and min are", f.Strategy)
	}
	to.Filled, to.Attended, to.Filler = f.Length, f.Attended, f.Token
	return nil
}

// readLate reads what the files of sentence-transformers or PyLate say about the sides. Settings have the prompts.
func (s *Settings) readLate(dir string, modules []module) error {
	s.Pooling, s.Late = Tokens, &Late{}
	query, document := &s.Late.Query, &s.Late.Document
	query.Prompt, document.Prompt = s.Prompts[Query], s.Prompts[Document]
	path := filepath.Join(dir, promptsFile)
	var old struct { // of PyLate
		Kind           string    `json:"model_type"`
		Query          *string   `json:"query_prefix"`
		Document       *string   `json:"document_prefix"`
		QueryLength    int       `json:"query_length"`
		DocumentLength int       `json:"document_length"`
		Attended       bool      `json:"attend_to_expansion_tokens"`
		Skipped        *[]string `json:"skiplist_words"`
		Fills          *bool     `json:"do_query_expansion"`
	}
	if _, err := readJSON(dir, promptsFile, &old); err != nil {
		return err
	}
	if old.Query != nil || old.Document != nil || old.Kind == "ColBERT" {
		marker := func(given *string, absent, prompt string) (marker, rest string) {
			if marker = absent; given != nil {
				marker = *given
			}
			return marker, strings.TrimPrefix(prompt, marker)
		}
		query.Marker, query.Prompt = marker(old.Query, "[Q] ", query.Prompt)
		document.Marker, document.Prompt = marker(old.Document, "[D] ", document.Prompt)
		query.MaxTokens = cmp.Or(old.QueryLength, queryTokens)
		document.MaxTokens = cmp.Or(old.DocumentLength, documentTokens)
		if old.Fills == nil || *old.Fills {
			query.Filled, query.Attended = query.MaxTokens, old.Attended
		}
		if document.Skipped = punctuation(); old.Skipped != nil {
			document.Skipped = *old.Skipped
		}
		s.Normalize = true
		s.boundSides()
		return s.Late.check(path)
	}
	for _, name := range limitFiles {
		var own struct {
			Query    int   `json:"query_length"`
			Document int   `json:"document_length"`
			Fill     *fill `json:"query_expansion"`
		}
		found, err := readJSON(filepath.Join(dir, modules[0].Path), name, &own)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		path = filepath.Join(dir, modules[0].Path, name)
		query.MaxTokens, document.MaxTokens = own.Query, own.Document
		if own.Fill != nil {
			if err := own.Fill.apply(query); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		break
	}
	s.boundSides()
	return s.Late.check(path)
}

// boundSides has the model's limit bound the sides that have none of their own, and the longest side the model's texts.
func (s *Settings) boundSides() {
	query, document := &s.Late.Query, &s.Late.Document
	for _, side := range []*Side{query, document} {
		if side.MaxTokens = cmp.Or(side.MaxTokens, s.MaxTokens); side.MaxTokens > 0 {
			side.MaxTokens = max(side.MaxTokens, side.Filled)
		}
	}
	if s.MaxTokens = max(query.MaxTokens, document.MaxTokens); min(query.MaxTokens, document.MaxTokens) == 0 {
		s.MaxTokens = 0
	}
}

// readMask reads the config of a MultiVectorMask.
func (s *Settings) readMask(dir string, m module) error {
	const file = "config.json"
	config := struct {
		Words []string `json:"skiplist_words"`
		Tasks []string `json:"skiplist_tasks"`
		Only  []int    `json:"keep_only_token_ids"`
	}{Tasks: []string{Document}}
	if _, err := readJSON(filepath.Join(dir, m.Path), file, &config); err != nil {
		return err
	}
	if config.Only != nil {
		return fmt.Errorf("%s: keep_only_token_ids is not supported", filepath.Join(dir, m.Path, file))
	}
	for _, task := range config.Tasks {
		switch task {
		case Query:
			s.Late.Query.Skipped = config.Words
		case Document:
			s.Late.Document.Skipped = config.Words
		default:
			return fmt.Errorf("%s: skiplist_tasks has %q: query and document are supported",
				filepath.Join(dir, m.Path, file), task)
		}
	}
	return nil
}

// check returns what is wrong with the sides that a file has.
func (l *Late) check(path string) error {
	for _, side := range []Side{l.Query, l.Document} {
		if min(side.MaxTokens, side.Filled) < 0 || side.Filled > maxFilledTokens {
			return fmt.Errorf("%s: a text of %d tokens that is filled up to %d: it must be 0 to %d", path,
				side.MaxTokens, side.Filled, maxFilledTokens)
		}
	}
	return nil
}
