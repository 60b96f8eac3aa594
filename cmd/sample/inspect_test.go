package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Parts of versions that noted neither size nor digest are taken as they are, alongside parts of this one.
func TestPartsOfOlderVersions(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("m.fake"), nil, 0o666), os.WriteFile(at("in.jsonl"),
		[]byte(strings.Repeat("{\"prompt\":\"a\"}\n", 6)), 0o666)); err != nil {
		t.Fatal(err)
	}
	run := func() (int, string) {
		return sampleFake("run", "-m", at("m.fake"), "-i", at("in.jsonl"), "-o", at("out"), "--part-rows", "2",
			"--progress",
			"none")
	}
	if code, text := run(); code != 0 {
		t.Fatal(text)
	}
	notes := at("out/_job/parts.log")
	b, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	var older strings.Builder
	for line := range strings.Lines(string(b)) {
		_, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		var fields map[string]any
		if !ok || json.Unmarshal([]byte(text), &fields) != nil {
			continue
		}
		for _, name := range []string{"sha256", "bytes", "tail"} {
			if fields[name] == nil {
				t.Fatalf("%s notes no %s", text, name)
			}
			delete(fields, name)
		}
		text2, _ := json.Marshal(fields)
		fmt.Fprintf(&older, "\n%08x %s\n", crc32.Checksum(text2, crc32.MakeTable(crc32.Castagnoli)), text2)
	}
	if err := os.WriteFile(notes, []byte(older.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	want := outputOf(t, at("out"))
	if code, text := run(); code != 0 || !strings.Contains(text, "is finished: 6 rows in 3 parts, 6 completions") {
		t.Fatal(code, text)
	}
	// One that is generated again is noted with its digest, and checked from then on.
	if err := os.Remove(at("out/part-00001.parquet")); err != nil {
		t.Fatal(err)
	}
	if code, text := run(); code != 0 || strings.Contains(text, "damaged") {
		t.Fatal(code, text)
	}
	if code, text := sampleFake("verify", at("out")); code != 0 || !strings.Contains(text,
		"note: 2 parts were written by a version that noted no size") {
		t.Error(code, text)
	}
	if code, text := run(); code != 0 || !strings.Contains(text, "is finished") {
		t.Fatal(code, text)
	}
	if err := os.Truncate(at("out/part-00001.parquet"), 100); err != nil {
		t.Fatal(err)
	}
	if code, text := run(); code != 0 || !strings.Contains(text, "part-00001.parquet is damaged: it has 100 bytes") {
		t.Fatal(code, text)
	}
	if err := same(outputOf(t, at("out")), want); err != nil {
		t.Error(err)
	}
}

// Damaged objects are found and generated again, here and by a machine that knows nothing of the job, and verify tells
// of them.
func TestDamagedObjects(t *testing.T) {
	url := fakeBucket(t, 0)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model, input := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in.jsonl")
	var rows strings.Builder
	for i := range 20 {
		fmt.Fprintf(&rows, "{\"prompt\": \"row %02d\"}\n", i)
	}
	if err := errors.Join(os.WriteFile(model, nil, 0o666),
		os.WriteFile(input, []byte(rows.String()), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"jsonl", "parquet"} {
		out := url("out-" + format + "/")
		name := func(part int) string { return folder.PartName(part, format) }
		at := func(file string) string { return url("out-" + format + "/" + file) }
		run := func(more ...string) string {
			code, text := sampleFake(append([]string{"run", "-m", model, "-i", input, "-o", out, "--format", format,
				"--part-rows", "4", "--progress", "none"}, more...)...)
			if code != 0 {
				t.Fatal(code, text)
			}
			return text
		}
		verify := func(want int, lines ...string) {
			t.Helper()
			code, text := sampleFake("verify", out)
			if code != want {
				t.Errorf("exit code %d, want %d: %s", code, want, text)
			}
			for _, line := range lines {
				if !strings.Contains(text, line) {
					t.Errorf("%q is not in %s", line, text)
				}
			}
		}
		replace := func(file, text string) {
			if err := storage.Remove(t.Context(), at(file)); err != nil {
				t.Fatal(err)
			}
			put(t, at(file), text)
		}
		run()
		whole := outputOf(t, out)
		verify(0, "5 of 5 parts are whole", "is whole")

		replace(name(1), whole[name(1)][:100])
		replace(name(2), whole[name(3)])
		replace(name(3), whole[name(2)])
		verify(cli.ExitDamaged, name(1)+": it has 100 bytes", name(2)+": it has the content of "+name(3), "3 problems")
		text := run()
		for _, part := range []int{1, 2, 3} {
			if !strings.Contains(text, name(part)+" is damaged: ") {
				t.Errorf("%s is not named in %s", name(part), text)
			}
		}
		if err := same(outputOf(t, out), whole); err != nil {
			t.Error("mended:", format, err)
		}
		verify(0, "is whole")

		// Elsewhere, and with a note of an older version.
		replace(name(1), whole[name(1)][:100])
		if text := run("--work-dir", filepath.Join(dir, "other-"+format)); !strings.Contains(text,
			name(1)+" is damaged") {
			t.Error(text)
		}
		note := "_job/parts/part-00004.json"
		replace(note,
			`{"part":4,"rows":4,"rows_with_errors":0,"completions":4,"prompt_tokens":28,"completion_tokens":4}`)
		if err := storage.Remove(t.Context(), at(name(4))); err != nil {
			t.Fatal(err)
		}
		run("--work-dir", filepath.Join(dir, "third-"+format))
		f, err := storage.Open(t.Context(), at(note))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f.Reader()); err != nil || !strings.Contains(string(b), "sha256") {
			t.Error("the note is still the older version's:", string(b), err)
		}
		if err := same(outputOf(t, out), whole); err != nil {
			t.Error("mended elsewhere:", format, err)
		}
		put(t, at("part-99999."+format), "x")
		verify(cli.ExitDamaged, "part-99999."+format+": it is no part of this job")
	}
}

// An interrupted verify ends with the exit code that says so, and says nothing of damage.
func TestVerifyInterrupted(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("m.fake"), nil, 0o666), os.WriteFile(at("in.jsonl"),
		[]byte("{\"prompt\":\"a\"}\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if code, text := sampleFake("run", "-m", at("m.fake"), "-i", at("in.jsonl"), "-o", at("out"), "--progress",
		"none"); code != 0 {
		t.Fatal(text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	err := cli.Dispatch(ctx, &cli.Environment{Stdout: &out, Stderr: &out, FS: vfs.OS}, []string{"verify", at("out")})
	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("%v, and it printed %q", err, out.String())
	}
}
