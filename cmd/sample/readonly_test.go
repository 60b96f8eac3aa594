package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// A finished job says so where nothing can be written, by one process and with workers. One that has something left to
// do reports what it can't.
func TestFinishedJobOnAReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"m.fake": "", "in.jsonl": "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	readOnly := vfs.Inject(vfs.OS, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpOpen, vfs.OpList, vfs.OpRead, vfs.OpMkdir:
			return nil
		}
		return &os.PathError{Op: string(op.Kind), Path: op.Name, Err: syscall.EROFS}
	})
	run := func(fs vfs.FS, more ...string) (code int, stdout, stderr string) {
		var o, e strings.Builder
		args := append([]string{"run", "-m", filepath.Join(dir, "m.fake"), "-i", filepath.Join(dir, "in.jsonl"), "-o",
			out, "--part-rows", "1", "--progress", "none"}, more...)
		code = sampleMain(args, &cli.Environment{Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e,
			Models: fakeModels{},
			FS:     fs})
		return code, o.String(), e.String()
	}
	if code, _, stderr := run(vfs.OS); code != cli.ExitOK {
		t.Fatal(code, stderr)
	}
	for _, more := range [][]string{nil, {"--workers", "2"}} {
		if code, stdout, stderr := run(readOnly, more...); code != cli.ExitOK || stderr != "" ||
			!strings.Contains(stdout, "is finished: 2 rows in 2 parts") {
			t.Errorf("%q: exit code %d\n%s%s", more, code, stdout, stderr)
		}
	}
	const refused = "cannot lock the output folder"
	if code, _, stderr := run(readOnly, "--new"); code != cli.ExitFailure || !strings.Contains(stderr, refused) {
		t.Errorf("--new: exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := run(readOnly, "--seed", "3"); code != cli.ExitFailure || !strings.Contains(stderr,
		"seed is 3, was 0") {
		t.Errorf("another job: exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := run(readOnly, "-n", "2", "--extend"); code != cli.ExitFailure || !strings.Contains(stderr,
		refused) {
		t.Errorf("a larger job: exit code %d\n%s", code, stderr)
	}
	part := folder.Parts{Rows: 2, PartRows: 1}.Name(1, promptset.FormatParquet)
	if err := os.Remove(filepath.Join(out, part)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(readOnly); code != cli.ExitFailure || !strings.Contains(stderr, refused) ||
		!strings.Contains(stderr, "read-only file system") {
		t.Errorf("a part is missing: exit code %d\n%s", code, stderr)
	}
}
