package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
)

// Sizes and digests that are computed while a part is written equal the file's, however it was written.
func TestSeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 100, SealBytes - 1, SealBytes, SealBytes + 1, 5*SealBytes + 7,
			300_000}).Draw(t, "size")
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i * i >> 3)
		}
		var to bytes.Buffer
		m := NewMeasured(&to)
		for rest := content; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 1000, SealBytes, 3 * SealBytes, 200_000}).Draw(t, "write"))
			if n == 1 {
				n = min(len(rest), 1+size/50)
			}
			if _, err := m.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		digest, seal := m.Sums()
		sum := sha256.Sum256(content)
		if !bytes.Equal(to.Bytes(), content) || digest != hex.EncodeToString(sum[:]) {
			t.Fatal("what was written is not what was measured")
		}
		files := vfs.NewMem()
		f, _ := files.Create("d/f")
		f.Write(content)
		file, err := OpenLocal(files, "d").Open("f")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SealOf(file); got != seal || err != nil || seal.Bytes != int64(size) {
			t.Fatalf("the seal is %v, %v, want %v", got, err, seal)
		}
		note := PartSummary{Part: 3, Counts: tally.Counts{Rows: 2}, SHA256: digest, Seal: seal}
		text, err := json.Marshal(note)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParsePartSummary(text); got != note || err != nil || !got.Sealed() {
			t.Fatalf("%s is read as %+v, %v", text, got, err)
		}
	})
}

// Notes of versions before sizes and digests are read, and report that they have none.
func TestNotesWithoutDigests(t *testing.T) {
	got, err := ParsePartSummary([]byte(`{"part":1,"rows":2,"rows_with_errors":0,"completions":4,` +
		`"prompt_tokens":5,"completion_tokens":6}`))
	want(t, "note", got, PartSummary{Part: 1, Counts: tally.Counts{Rows: 2, Completions: 4, PromptTokens: 5,
		CompletionTokens: 6}})
	want(t, "error", err, nil)
	want(t, "sealed", got.Sealed(), false)
}

func FuzzPartSummary(f *testing.F) {
	for _, text := range []string{
		`{"part":1,"rows":2}`, `{"part":-1}`, `{"part":1,"bytes":5,"sha256":"00","tail":""}`, `{`, `null`, `[]`, `"x"`,
		`{"part":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
			`"tail":"e3b0c44298fc1c149afbf4c8996fb924","bytes":0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParsePartSummary(b)
		if err != nil {
			if !errors.Is(err, ErrNote) {
				t.Fatal(err)
			}
			return
		}
		text, err := json.Marshal(s)
		if err != nil || s.Part < 0 || s.Bytes < 0 {
			t.Fatal(s, err)
		}
		if again, err := ParsePartSummary(text); err != nil || again != s {
			t.Fatalf("%s is %+v, and that %+v, %v", b, s, again, err)
		}
	})
}
