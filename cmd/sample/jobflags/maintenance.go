package jobflags

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"cloud.google.com/go/compute/metadata"
	"github.com/spf13/pflag"

	"github.com/quire/quire/cmd/sample/cli"
)

// Maintenance is the flag that reports whether announcements of Google Compute Engine end the process.
type Maintenance struct{ mode string }

func (m *Maintenance) Define(s *pflag.FlagSet) {
	s.StringVar(&m.mode, "maintenance", "auto",
		"`MODE` stop, as by SIGTERM, when Google Compute Engine announces the end of this machine: auto (on its "+
			"machines), on or off")
}

func (m *Maintenance) Check() error {
	if !slices.Contains([]string{"auto", "on", "off"}, m.mode) {
		return fmt.Errorf("--maintenance is %q, but must be auto, on or off", m.mode)
	}
	return nil
}

// announcements are the keys of the metadata server, and what of their values ends this machine. It may migrate a
// machine without a TPU or GPU while that runs.
var announcements = map[string]func(value string) bool{
	"instance/maintenance-event": func(value string) bool { return strings.HasPrefix(value, "TERMINATE") },
	"instance/preempted":         func(value string) bool { return value == "TRUE" },
}

// Watch interrupts the run when the end of this machine is announced, until stop. An earlier announcement is only
// reported: it may have stopped the run once already, and the run continues for as long as the machine does.
func (m *Maintenance) Watch(env *cli.Environment, log *slog.Logger) (stop func()) {
	if m.mode == "off" || m.mode == "auto" && !onComputeEngine(os.Getenv, "/sys/class/dmi/id/product_name") {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	for key, ends := range announcements {
		first := true
		go func() {
			err := metadata.SubscribeWithContext(ctx, key, func(_ context.Context, value string, _ bool) error {
				before := first
				first = false
				switch value = strings.TrimSpace(value); {
				case !ends(value):
					log.Info("machine", "key", key, "value", value)
				case before:
					fmt.Fprintf(env.Stderr, "warning: the end of this machine is announced (%s is %s); the run "+
						"continues for as long as it does\n", key, value)
				default:
					env.Interrupt(fmt.Sprintf("Google Compute Engine announces the end of this machine (%s is %s)", key,
						value))
				}
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				log.Info("no announcements of the machine's end can be read; SIGTERM ends the run, too", "key", key,
					"err", err.Error())
			}
		}()
	}
	return cancel
}

// onComputeEngine reports whether this is one of its machines, without asking the network.
func onComputeEngine(getenv func(string) string, productName string) bool {
	if getenv("GCE_METADATA_HOST") != "" {
		return true
	}
	name, _ := os.ReadFile(productName)
	return strings.HasPrefix(string(name), "Google")
}
