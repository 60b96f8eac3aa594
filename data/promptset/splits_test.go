package promptset

import (
	"strings"
	"testing"
)

// The names come from data sets on the hub, and from the documentation of the package datasets.
func TestSplitOf(t *testing.T) {
	for name, want := range map[string][2]string{
		"data/train-00000-of-00002.parquet":      {"train", "data/train*.parquet"},
		"main/test-00000-of-00001.parquet":       {"test", "main/test*.parquet"},
		"my_train_file_1.csv":                    {"train", "my_train*.csv"},
		"data/validation/shard.jsonl":            {"validation", "data/validation"},
		"dev.jsonl":                              {"validation", "dev*.jsonl"},
		"test_data/training-1.jsonl":             {"train", "test_data/training*.jsonl"},
		"default/train/0000.parquet":             {"train", "default/train"},
		"eval.jsonl.gz":                          {"test", "eval*.gz"},
		"trained.jsonl":                          {"", ""},
		"contest/rows.parquet":                   {"", ""},
		"questions.jsonl":                        {"", ""},
		"valley/develop.jsonl":                   {"", ""},
		"Train-Data.CSV":                         {"train", "Train*.CSV"},
		"cfg/partial-train/0000.parquet":         {"train", "cfg/partial-train"},
		"en/validation-00000-of-00001-7.parquet": {"validation", "en/validation*.parquet"},
	} {
		if split, glob := splitOf(name); split != want[0] || glob != want[1] {
			t.Errorf("%s: %q %q, want %q", name, split, glob, want)
		}
	}
	err := checkSplits("hf://datasets/o/n", []string{"data/test-0.parquet", "data/train-0.parquet", "other.parquet"})
	if err == nil || !strings.Contains(err.Error(), "the splits test, train: name the files of one, such as "+
		"hf://datasets/o/n/data/train*.parquet") {
		t.Error(err)
	}
	if err := checkSplits("f", []string{"data/train-0.parquet", "data/train-1.parquet", "other.parquet"}); err != nil {
		t.Error(err)
	}
}
