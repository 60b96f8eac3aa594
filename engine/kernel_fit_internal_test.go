package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/klauspost/compress/zstd"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/internal/fakeplugin"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// noVMEM is what libtpu says of a kernel, shortened.
const noVMEM = "error 8 Ran out of memory in memory space vmem while allocating on stack for %%%s. " +
	"Scoped allocation with size 20.50M and limit 16.00M exceeded scoped vmem limit by 4.50M."

// A kernel that does not fit into a core's memory gives way to one with smaller blocks, and that to ordinary
// operations, with a cache in their layout. The log and the list of kernels name each step.
func TestKernelsThatDoNotFit(t *testing.T) {
	const first, second = "blocks of 32 queries and 16 pages", "blocks of 8 queries and 16 pages"
	type step struct{ kernel, tried, next string }
	for name, c := range map[string]struct {
		model models.Config
		steps []step
	}{
		"head dim 128": {heads128, []step{{first, "", ""},
			{second, first + " need 20.50 MiB of VMEM, and may have 16.00 MiB", second},
			{"", "; " + second + " need 20.50 MiB of VMEM, and may have 16.00 MiB", "the plain form"}}},
		"head dim 64": {heads64, []step{{first, "", ""},
			{"", first + " need 20.50 MiB of VMEM, and may have 16.00 MiB", "the plain form"}}},
	} {
		t.Run(name, func(t *testing.T) {
			fails := fmt.Sprintf(noVMEM, `name.5 = custom-call(), custom_call_target="tpu_custom_call"`)
			for failures, want := range c.steps {
				script := []string{"platform=tpu", "memory=100000000000"}
				for i := range failures {
					script = append(script, fmt.Sprintf("Client_Compile@%d: %s", i+1, fails))
				}
				uses, log, err := precompiledOnFake(t, c.model, script...)
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(log, "a kernel does not fit, another is tried"); n != failures ||
					failures > 0 && !strings.Contains(log, fmt.Sprintf("next=%q", want.next)) {
					t.Errorf("after %d failures the log says:\n%s", failures, log)
				}
				tried, called := false, false
				for _, use := range uses {
					tried = tried || strings.Contains(use.Tried, want.tried)
					called = called || want.kernel != "" && strings.Contains(use.Kernel, want.kernel)
					if want.kernel == "" && use.Kernel != "" || failures > 0 && strings.Contains(use.Kernel, first) {
						t.Errorf("after %d failures: %+v", failures, use)
					}
				}
				if !tried || called != (want.kernel != "") {
					t.Errorf("after %d failures the kernels are %+v", failures, uses)
				}
				if len(uses) == 0 {
					t.Error("no kernel was asked for")
				}
			}
		})
	}
}

// Where plain operations do not fit either, and where it is no kernel of ours, the error says what does not.
func TestMemoryErrorsOfPrograms(t *testing.T) {
	_, log, err := precompiledOnFake(t, heads128, "platform=tpu", "memory=100000000000",
		"Client_Compile: "+fmt.Sprintf(noVMEM, "fusion.7 = f32[8] fusion()"))
	var kernel *xla.KernelMemoryError
	if !errors.As(err, &kernel) || kernel.Space != xla.VMEM || kernel.Kernel != "" || kernel.Needed != 41<<19 ||
		kernel.Limit != 16<<20 || kernel.Program != "run" || strings.Contains(log, "another is tried") ||
		!strings.Contains(err.Error(), "operation %fusion.7 needs 20.50 MiB of VMEM") {
		t.Errorf("a fusion gives %v (%+v), and the log %s", err, kernel, log)
	}
	var oom *xla.OutOfMemoryError
	if errors.As(err, &oom) {
		t.Error("an error of VMEM is one of the device's memory too")
	}
	_, _, err = precompiledOnFake(t, heads128, "platform=tpu", "memory=100000000000",
		"Client_Compile: error 8 Ran out of memory in memory space hbm. Used 17.75G of 15.75G hbm. Exceeded hbm "+
			"capacity by 2.00G. ")
	if !errors.As(err, &oom) || oom.Needed != 71<<28 || oom.Available != 63<<28 {
		t.Errorf("HBM gives %v", err)
	}
}

// precompiledOnFake compiles program run on a plugin that does what a script says.
func precompiledOnFake(t *testing.T, model models.Config, script ...string) ([]xla.KernelUse, string, error) {
	t.Helper()
	b, err := xla.New(xla.Options{Plugin: fakeplugin.New(t, script...), Platform: "tpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	var log bytes.Buffer
	done, err := Precompile(t.Context(), Config{Model: checkedModel(model, 1024), Backend: b, DType: dtypes.BFloat16,
		MaxSeqs: 64, PageSize: 16, KVMemory: 256 << 20, Log: slog.New(slog.NewTextHandler(&log, nil))}, "run")
	if err != nil {
		return nil, log.String(), err
	}
	done.Close()
	return b.KernelUses(), log.String(), nil
}

// libtpu itself refuses kernels that may have 16 KiB of VMEM, one after the other, and compiles the program with one of
// smaller blocks that may have more, or without.
func TestKernelsThatDoNotFitLibtpu(t *testing.T) {
	testenv.Slow(t)
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is compiled for TPU`)
	}
	more := heads128 // for which there are smaller blocks
	more.NumHeads = 16
	for name, c := range map[string]struct {
		model models.Config
		page  int
		last  string // the smallest blocks, of which the compiler may complain first
		most  int    // kernels
		next  string
	}{
		"v5e:1x1": {heads128, 16, "blocks of 8 queries and 16 pages need", 2, ""},
		"v6e:1x1": {heads64, 16, "blocks of 32 queries and 16 pages need", 1, ""},
		"v5e:2x2": {more, 64, "blocks of 128 queries and 8 pages need", 2, "blocks of 16 queries and 4 pages"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := xla.OpenTopology(xla.TopologyOptions{Plugin: plugin, Name: name, KernelDir: cramped(t, c.page)})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Finalize()
			var log bytes.Buffer
			done, err := Precompile(t.Context(), Config{Model: checkedModel(c.model, 1024), Backend: b,
				DType: dtypes.BFloat16, MaxSeqs: 64, PageSize: c.page, KVMemory: 64 << 20,
				Log: slog.New(slog.NewTextHandler(&log, nil))}, "run")
			if err != nil {
				t.Fatal(err)
			}
			defer done.Close()
			tried, kernels := "", ""
			for _, use := range b.KernelUses() {
				tried, kernels = tried+use.Tried, kernels+use.Kernel
			}
			if (kernels == "") != (c.next == "") || !strings.Contains(kernels, c.next) {
				t.Errorf("kernels are %q, want %q", kernels, c.next)
			}
			for _, want := range []string{c.last, "of VMEM, and may have 16.00 KiB"} {
				if !strings.Contains(tried, want) {
					t.Errorf("what was tried is %q, want %q", tried, want)
				}
			}
			if n := strings.Count(log.String(), "a kernel does not fit, another is tried"); n < 1 || n > c.most {
				t.Errorf("the log says:\n%s", &log)
			}
		})
	}
}

// cramped is a folder with the payloads that come with the program for pages of so many tokens, which may have 16 KiB
// of VMEM; without those with the smaller of two blocks.
func cramped(t *testing.T, page int) string {
	t.Helper()
	packed, err := os.ReadFile(testenv.Path("backend", "xla", "mosaic", "payloads", "common.zst"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	const smaller = 256 // tokens of a block
	for len(data) > 0 {
		head, rest, _ := bytes.Cut(data, []byte("\n"))
		var header map[string]any
		if err := json.Unmarshal(head, &header); err != nil {
			t.Fatal(err)
		}
		size := int(header["body_bytes"].(float64))
		pages := header["blocks"].(map[string]any)["pages"].(float64)
		config := header["config"].(map[string]any)
		if config["page_size"] == float64(page) && (page == 16 || page*int(pages) > smaller) {
			header["backend_config"].(map[string]any)["scoped_memory_configs"] = []any{
				map[string]any{"memory_space": 1, "offset": 0, "size": 16 << 10}}
			text, err := json.Marshal(header)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(append(out, text...), '\n'), rest[:size]...)
		}
		data = rest[size:]
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cramped"+mosaic.Suffix), out, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
