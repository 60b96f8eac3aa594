package sentence

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// folder writes files and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const modules = `[{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
	{"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}`

// The files of sentence-transformers are read, in their older and newer forms.
func TestReadFolder(t *testing.T) {
	absent := Settings{Pooling: Last}
	for name, c := range map[string]struct {
		files map[string]string
		want  Settings
	}{
		"none": {nil, absent},
		"all": {map[string]string{
			"modules.json": modules + `,
				{"idx":2,"path":"2_Dense","type":"sentence_transformers.models.Dense"},
				{"idx":3,"path":"3_Normalize","type":"sentence_transformers.models.Normalize"}]`,
			"1_Pooling/config.json": `{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false,
				"include_prompt":false}`,
			"2_Dense/config.json":       `{"in_features":4,"out_features":3,"bias":false}`,
			"2_Dense/model.safetensors": "",
			"config_sentence_transformers.json": `{"prompts":{"query":"q: ","document":""},
				"default_prompt_name":"document"}`,
			"sentence_bert_config.json": `{"max_seq_length":77,"do_lower_case":true}`},
			Settings{Pooling: CLS, Normalize: true, MaxTokens: 77, Lowercase: true, ExcludePrompt: true,
				Prompts: map[string]string{"query": "q: ", "document": ""}, DefaultPrompt: "document", Stated: true,
				Dense: []Dense{{In: 4, Out: 3, Activation: "tanh", Folder: "2_Dense"}}}},
		"newer pooling": {map[string]string{"modules.json": modules + "]",
			"1_Pooling/config.json": `{"pooling_mode":"lasttoken"}`}, Settings{Pooling: Last, Stated: true}},
		"without modules.json": {map[string]string{"1_Pooling/config.json": `{"pooling_mode_max_tokens":true}`},
			Settings{Pooling: Max, Stated: true}},
		"no length": {map[string]string{"modules.json": modules + "]", "1_Pooling/config.json": "{}",
			"sentence_bert_config.json": `{"max_seq_length":null}`}, Settings{Pooling: Mean, Stated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadFolder(folder(t, c.files), absent)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// What is not done exactly is refused by name.
func TestRefusals(t *testing.T) {
	pooling := func(config string) map[string]string {
		return map[string]string{"modules.json": modules + "]", "1_Pooling/config.json": config}
	}
	dense := func(config string) map[string]string {
		files := pooling("{}")
		files["modules.json"] = modules + `,{"path":"2_Dense","type":"sentence_transformers.models.Dense"}]`
		files["2_Dense/config.json"] = config
		return files
	}
	for want, files := range map[string]map[string]string{
		"pooling_mode_weightedmean_tokens is not supported": pooling(`{"pooling_mode_weightedmean_tokens":true}`),
		"pooling_mode_cls_token and pooling_mode_mean_tokens together": pooling(
			`{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}`),
		`pooling is "attention"; choose mean, cls, last, max`: pooling(`{"pooling_mode":"attention"}`),
		"type sentence_transformers.models.LSTM": {
			"modules.json":          modules + `,{"type":"sentence_transformers.models.LSTM"}]`,
			"1_Pooling/config.json": "{}"},
		"outside the folder":               {"modules.json": `[{"path":"../x","type":"Transformer"}]`},
		"has no Pooling":                   {"modules.json": `[{"path":"","type":"Transformer"}]`},
		"1_Pooling/config.json is missing": {"modules.json": modules + "]"},
		"activation_function \"torch.nn.ReLU\"": dense(
			`{"in_features":1,"out_features":1,"activation_function":"torch.nn.ReLU"}`),
		"PyTorch .bin weights are not read": dense(`{"in_features":1,"out_features":1}`),
		"max_seq_length is 0": {"modules.json": modules + "]", "1_Pooling/config.json": "{}",
			"sentence_bert_config.json": `{"max_seq_length":0}`},
		`default_prompt_name is "query"`: {"modules.json": modules + "]", "1_Pooling/config.json": "{}",
			"config_sentence_transformers.json": `{"default_prompt_name":"query"}`},
	} {
		if _, err := ReadFolder(folder(t, files), Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestIsFile(t *testing.T) {
	for name, want := range map[string]bool{"modules.json": true, "1_Pooling/config.json": true,
		"2_Dense/model.safetensors": true, "2_Dense/pytorch_model.bin": false, "onnx/config.json": false,
		"1_Pooling/model.safetensors": false, "sentence_bert_config.json": true, "x.json": false,
		"_x/config.json": false} {
		if IsFile(name) != want {
			t.Errorf("IsFile(%q) is %t", name, !want)
		}
	}
}

func TestNormalizeAndCut(t *testing.T) {
	v := []float32{3, 0, -4, 7}
	short, err := Cut(v, 3)
	if err != nil {
		t.Fatal(err)
	}
	Normalize(short)
	if !reflect.DeepEqual(v, []float32{0.6, 0, -0.8, 7}) {
		t.Errorf("the first three become %v", v)
	}
	zeros := []float32{0, 0}
	if Normalize(zeros); zeros[0] != 0 || zeros[1] != 0 {
		t.Errorf("zeros become %v", zeros)
	}
	for _, n := range []int{0, 5} {
		if _, err := Cut(v, n); err == nil {
			t.Errorf("%d of 4 numbers are not refused", n)
		}
	}
}

// The modules of a decoder that scores pairs say which tokens answer. What is not done is refused by name.
func TestAnswers(t *testing.T) {
	const settings = `{"processing_kwargs": {"chat_template": {"add_generation_prompt": true}}}`
	files := map[string]string{"1_LogitScore/config.json": `{"true_token_id": 9, "false_token_id": 4}`,
		"sentence_bert_config.json":         settings,
		"config_sentence_transformers.json": `{"activation_fn": "torch.nn.modules.linear.Identity"}`,
		"modules.json": `[{"path": "", "type": "a.Transformer"},
			{"path": "1_LogitScore", "type": "b.LogitScore"}]`}
	for name, c := range map[string]struct {
		file, content, wrong string
		want                 Answers
	}{
		"both":        {want: Answers{Yes: 9, No: 4, Opens: true, Function: "identity"}},
		"yes alone":   {"1_LogitScore/config.json", `{"true_token_id": 9}`, "", Answers{9, -1, true, "identity"}},
		"no function": {"config_sentence_transformers.json", `{}`, "", Answers{Yes: 9, No: 4, Opens: true}},
		"no token":    {file: "1_LogitScore/config.json", content: `{}`, wrong: "has no true_token_id"},
		"function": {file: "config_sentence_transformers.json", content: `{"activation_fn": "torch.nn.Tanh"}`,
			wrong: `activation_fn "torch.nn.Tanh" is not supported`},
		"arguments": {file: "sentence_bert_config.json", content: `{"processing_kwargs": {"text": {"padding": true}}}`,
			wrong: "padding of processing_kwargs is not supported"},
		"no messages": {file: "sentence_bert_config.json", content: `{"modality_config": {"text": {}}}`,
			wrong: "modality_config has no message"},
	} {
		one := maps.Clone(files)
		if c.file != "" {
			one[c.file] = c.content
		}
		s, err := ReadFolder(folder(t, one), Settings{Pooling: Last})
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %s", name, err, c.wrong)
		case c.wrong == "" && (err != nil || s.Answers == nil || *s.Answers != c.want || s.Pooling != Last || s.Stated):
			t.Errorf("%s: %+v %v, want %+v", name, s, err, c.want)
		}
	}
}
