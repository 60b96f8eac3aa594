package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/internal/pyjson"
)

// The files of a folder that sentence-transformers wrote.
const (
	modulesFile = "modules.json"
	promptsFile = "config_sentence_transformers.json"
	denseFile   = "model.safetensors"
)

// limitFiles have the limit of tokens; the first one counts.
var limitFiles = []string{"sentence_bert_config.json", "sentence_roberta_config.json",
	"sentence_distilbert_config.json", "sentence_camembert_config.json", "sentence_albert_config.json",
	"sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"}

// Files lists the files of a folder that [ReadFolder] read for these settings, below the folder, apart from weights.
func Files(dir string) []string {
	names := []string{modulesFile, promptsFile, lateFile, filepath.Join("1_Pooling", "config.json")}
	names = append(names, limitFiles...)
	if modules, err := readModules(dir); err == nil {
		for _, m := range modules {
			if name := filepath.Join(m.Path, "config.json"); m.Path != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err != nil
	})
}

// IsFile reports whether a file of a repository, by its name with slashes, is one of a folder of sentence-transformers.
func IsFile(name string) bool {
	if folder, file, ok := strings.Cut(name, "/"); ok {
		number, kind, ok := strings.Cut(folder, "_")
		return ok && number != "" && strings.Trim(number, "0123456789") == "" && kind != "" &&
			(file == "config.json" || kind == "Dense" && file == denseFile)
	}
	return name == modulesFile || name == promptsFile || name == lateFile || slices.Contains(limitFiles, name)
}

// module is an entry of modules.json.
type module struct{ Path, Type string }

// kind is the class of a module without its package.
func (m module) kind() string { return m.Type[strings.LastIndex(m.Type, ".")+1:] }

func readModules(dir string) (modules []module, err error) {
	_, err = readJSON(dir, modulesFile, &modules)
	for _, m := range modules {
		if m.Path != "" && !filepath.IsLocal(m.Path) {
			return nil, fmt.Errorf("%s: the path %q of a module is outside the folder",
				filepath.Join(dir, modulesFile), m.Path)
		}
	}
	return modules, err
}

// ReadFolder reads the files of sentence-transformers in a folder. Without any, the settings are what absent says.
func ReadFolder(dir string, absent Settings) (Settings, error) {
	modules, err := readModules(dir)
	if err != nil {
		return Settings{}, err
	}
	if len(modules) == 0 {
		modules = loose(dir)
	}
	if len(modules) == 0 {
		return absent, nil
	}
	s := Settings{Stated: true}
	late, masks := false, []module(nil) // a vector for each token follows from a layer of tokens
	for i, m := range modules {
		var err error
		switch kind := m.kind(); {
		case kind == "Transformer" && i == 0:
			err = s.readLimit(dir, m)
		case kind == "Pooling" && i == 1:
			err = s.readPooling(dir, m)
		case kind == "LogitScore" && i == 1 && len(modules) == 2:
			err = s.readAnswers(dir, modules)
		case kind == "Dense" && i > 0 && !s.Normalize && s.Answers == nil:
			err = s.readDense(dir, m)
			late = late || i == 1
		case kind == "MultiVectorMask" && late && !s.Normalize:
			masks = append(masks, m)
		case kind == "Normalize" && i > 1:
			s.Normalize = true
		default:
			err = fmt.Errorf("module %d of %s is of type %s: supported are a Transformer, a Pooling, Dense layers and "+
				"a Normalize, in this order; or, for late interaction, a MultiVectorMask without a Pooling", i,
				filepath.Join(dir, modulesFile), m.Type)
		}
		if err != nil {
			return Settings{}, err
		}
	}
	if s.Answers != nil { // they say nothing of vectors
		s.Pooling, s.Stated = absent.Pooling, false
	}
	if s.Pooling == "" && !late {
		return Settings{}, fmt.Errorf("%s has no Pooling", filepath.Join(dir, modulesFile))
	}
	var prompts struct {
		Prompts map[string]string `json:"prompts"`
		Default string            `json:"default_prompt_name"`
	}
	if _, err := readJSON(dir, promptsFile, &prompts); err != nil {
		return Settings{}, err
	}
	s.Prompts, s.DefaultPrompt = prompts.Prompts, prompts.Default
	if _, ok := s.Prompts[s.DefaultPrompt]; s.DefaultPrompt != "" && !ok {
		return Settings{}, fmt.Errorf("%s: default_prompt_name is %q, and there is no such prompt",
			filepath.Join(dir, promptsFile), s.DefaultPrompt)
	}
	if !late {
		return s, nil
	}
	if err := s.readLate(dir, modules); err != nil {
		return Settings{}, err
	}
	for _, m := range masks {
		if err := s.readMask(dir, m); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}

// loose are the modules of a folder that has lost its modules.json, as copies of a model often have.
func loose(dir string) []module {
	pooling := module{Path: "1_Pooling", Type: "Pooling"}
	if _, err := os.Stat(filepath.Join(dir, pooling.Path, "config.json")); err != nil {
		return nil
	}
	modules := []module{{Type: "Transformer"}, pooling}
	if _, err := os.Stat(filepath.Join(dir, "2_Normalize")); err == nil {
		modules = append(modules, module{Type: "Normalize"})
	}
	return modules
}

// readLimit reads the settings of the model itself.
func (s *Settings) readLimit(dir string, m module) error {
	for _, name := range limitFiles {
		var config struct {
			Tokens *int `json:"max_seq_length"`
			Lower  bool `json:"do_lower_case"`
		}
		found, err := readJSON(filepath.Join(dir, m.Path), name, &config)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if config.Tokens != nil {
			if *config.Tokens < 1 {
				return fmt.Errorf("%s: max_seq_length is %d", filepath.Join(dir, m.Path, name), *config.Tokens)
			}
			s.MaxTokens = *config.Tokens
		}
		s.Lowercase = config.Lower
		return nil
	}
	return nil
}

// readAnswers reads the modules of a decoder that scores pairs: a Transformer and a LogitScore.
func (s *Settings) readAnswers(dir string, modules []module) error {
	const file = "config.json"
	path := filepath.Join(dir, modules[1].Path, file)
	var config struct {
		True  *int   `json:"true_token_id"`
		False *int   `json:"false_token_id"`
		Input string `json:"module_input_name"`
	}
	if found, err := readJSON(filepath.Join(dir, modules[1].Path), file, &config); err != nil {
		return err
	} else if !found || config.True == nil {
		return fmt.Errorf("%s has no true_token_id", path)
	}
	s.Answers = &Answers{Yes: *config.True, No: -1}
	if config.False != nil {
		s.Answers.No = *config.False
	}
	var whole struct {
		Function string `json:"activation_fn"`
	}
	if _, err := readJSON(dir, promptsFile, &whole); err != nil {
		return err
	}
	switch whole.Function {
	case "", "torch.nn.modules.activation.Sigmoid":
	case "torch.nn.modules.linear.Identity":
		s.Answers.Function = "identity"
	default:
		return fmt.Errorf("%s: activation_fn %q is not supported: Sigmoid and Identity are",
			filepath.Join(dir, promptsFile), whole.Function)
	}
	for _, name := range limitFiles {
		var own struct {
			Inputs    map[string]any            `json:"modality_config"`
			Arguments map[string]map[string]any `json:"processing_kwargs"`
		}
		found, err := readJSON(filepath.Join(dir, modules[0].Path), name, &own)
		if err != nil {
			return err
		}
		if found && own.Inputs != nil && own.Inputs["message"] == nil {
			return fmt.Errorf("%s: modality_config has no message, and pairs without a chat template are not supported",
				filepath.Join(dir, modules[0].Path, name))
		}
		for kind, values := range own.Arguments {
			for key, value := range values {
				if opens, ok := value.(bool); ok && kind == "chat_template" && key == "add_generation_prompt" {
					s.Answers.Opens = opens
					continue
				}
				return fmt.Errorf("%s: %s of processing_kwargs is not supported: add_generation_prompt of "+
					"chat_template is", filepath.Join(dir, modules[0].Path, name), key)
			}
		}
		if found {
			break
		}
	}
	return nil
}

// readPooling reads the config of a Pooling: the newer pooling_mode, or a key for each way to pool.
func (s *Settings) readPooling(dir string, m module) error {
	const file = "config.json"
	path := filepath.Join(dir, m.Path, file)
	var config map[string]json.RawMessage
	found, err := readJSON(filepath.Join(dir, m.Path), file, &config)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing", path)
	}
	is := func(key string, absent bool) bool {
		if raw, ok := config[key]; ok {
			return string(raw) == "true"
		}
		return absent
	}
	s.ExcludePrompt = !is("include_prompt", true)
	keys := map[string]Pooling{"pooling_mode_mean_tokens": Mean, "pooling_mode_cls_token": CLS,
		"pooling_mode_lasttoken": Last, "pooling_mode_max_tokens": Max, "pooling_mode_mean_sqrt_len_tokens": "",
		"pooling_mode_weightedmean_tokens": ""}
	var modes []string
	for key := range keys {
		if is(key, false) {
			modes = append(modes, key)
		}
	}
	if raw, ok := config["pooling_mode"]; ok {
		var mode string
		if err := json.Unmarshal(raw, &mode); err != nil {
			return fmt.Errorf("%s: several ways to pool at once are not supported", path)
		}
		names := map[string]Pooling{"lasttoken": Last}
		if s.Pooling = names[mode]; s.Pooling == "" {
			if s.Pooling, err = ParsePooling(mode); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	}
	slices.Sort(modes)
	switch {
	case len(modes) == 0:
		s.Pooling = Mean
	case len(modes) > 1:
		return fmt.Errorf("%s asks for %s together: one way to pool is supported", path, strings.Join(modes, " and "))
	default:
		if s.Pooling = keys[modes[0]]; s.Pooling == "" {
			return fmt.Errorf("%s: %s is not supported", path, modes[0])
		}
	}
	return nil
}

// readDense reads the config of a Dense layer.
func (s *Settings) readDense(dir string, m module) error {
	const file = "config.json"
	path := filepath.Join(dir, m.Path, file)
	config := struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       bool   `json:"bias"`
		Activation string `json:"activation_function"`
		Residual   bool   `json:"use_residual"`
	}{Bias: true, Activation: "torch.nn.modules.activation.Tanh"}
	found, err := readJSON(filepath.Join(dir, m.Path), file, &config)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing", path)
	}
	if config.Residual {
		return fmt.Errorf("%s: use_residual is not supported", path)
	}
	d := Dense{In: config.In, Out: config.Out, Bias: config.Bias, Folder: m.Path}
	switch config.Activation {
	case "torch.nn.modules.activation.Tanh":
		d.Activation = "tanh"
	case "torch.nn.modules.linear.Identity":
	default:
		return fmt.Errorf("%s: activation_function %q is not supported: Tanh and Identity are", path,
			config.Activation)
	}
	if _, err := os.Stat(filepath.Join(dir, m.Path, denseFile)); err != nil {
		return fmt.Errorf("%s has no %s: PyTorch .bin weights are not read; convert them to safetensors",
			filepath.Join(dir, m.Path), denseFile)
	}
	s.Dense = append(s.Dense, d)
	return nil
}

// maxBytes bounds a file of settings.
const maxBytes = 1 << 20

// readJSON reads a file into to; found is false if there is none.
func readJSON(dir, name string, to any) (found bool, err error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.Size() > maxBytes {
		err = fmt.Errorf("it has %d bytes, more than the %d that are read", info.Size(), maxBytes)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(pyjson.Standard(data), to)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}
