package xla

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// ErrNoProfiler is wrapped by the errors of [Backend.StartProfile] on a plugin that has no profiler.
var ErrNoProfiler = pjrtc.ErrNoProfiler

// Profile is a profile of devices in progress.
type Profile struct{ session *pjrtc.Profiler }

// CheckProfiler returns why no profile can be taken: an error that wraps [ErrNoProfiler] if the plugin has no profiler.
func (d *devices) CheckProfiler() error {
	if err := d.valid(); err != nil {
		return err
	}
	if err := pjrtc.HasProfiler(d.plugin); err != nil {
		return fmt.Errorf("xla: a profile of the devices of %s: %w", d.pluginPath, err)
	}
	return nil
}

// StartProfile starts a profile of all that the plugin's devices do until Stop.
func (d *devices) StartProfile() (*Profile, error) {
	if err := d.CheckProfiler(); err != nil {
		return nil, err
	}
	s, err := pjrtc.StartProfiler(d.plugin, profileOptions())
	if err != nil {
		return nil, fmt.Errorf("xla: starting a profile of the devices: %w", err)
	}
	return &Profile{s}, nil
}

// profileOptions returns a serialized tensorflow.ProfileOptions. The field numbers are from tsl/profiler/protobuf/
// profiler_options.proto.
func profileOptions() []byte {
	var o []byte
	for _, field := range [][2]uint64{
		{5, 1}, // version
		{2, 2}, // host_tracer_level
		{3, 1}, // device_tracer_level
		{7, 1}, // enable_hlo_proto
	} {
		o = protowire.AppendVarint(protowire.AppendTag(o, protowire.Number(field[0]), protowire.VarintType), field[1])
	}
	return o
}

// Stop ends the profile and writes it below a folder, in the place that TensorBoard and xprof search:
// plugins/profile/RUN/HOST.xplane.pb, with the time as the run. It returns the file's name.
func (p *Profile) Stop(folder string) (string, error) {
	data, err := p.session.Stop()
	if err != nil {
		return "", fmt.Errorf("xla: ending the profile of the devices: %w", err)
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	dir := filepath.Join(folder, "plugins", "profile", time.Now().UTC().Format("2006_01_02_15_04_05.000"))
	file := filepath.Join(dir, strings.ReplaceAll(host, string(filepath.Separator), "_")+".xplane.pb")
	err = os.MkdirAll(dir, 0o777)
	if err == nil {
		err = os.WriteFile(file, planes(data), 0o666)
	}
	if err != nil {
		return "", fmt.Errorf("xla: writing the profile of the devices: %w", err)
	}
	return file, nil
}

// planes returns an XSpace message without what may follow it: plugins return a buffer that is a byte longer.
func planes(data []byte) []byte {
	at := 0
	for at < len(data) {
		_, _, n := protowire.ConsumeField(data[at:])
		if n < 0 {
			break
		}
		at += n
	}
	return data[:at]
}
