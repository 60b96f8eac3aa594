package observe

import (
	"errors"
	"sync"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/data/setting"
)

// DeviceProfile reports that a profile of the devices is taken by the plugin's own profiler, from the first call of
// this process on.
type DeviceProfile struct {
	// Folder gets plugins/profile/RUN/HOST.xplane.pb, which TensorBoard and xprof show.
	Folder string
	// Calls is after how many calls of all replicas the profile ends; 0 for the engine's number.
	Calls int64

	mu      sync.Mutex
	started bool
	running *xla.Profile
	calls   int64
}

// profiled is what a [DeviceProfile] asks of a backend.
type profiled interface {
	CheckProfiler() error
	StartProfile() (*xla.Profile, error)
}

// Check refuses a backend that has no profiler.
func (p *DeviceProfile) Check(backend compute.Backend) error {
	if p == nil {
		return nil
	}
	b, ok := backend.(profiled)
	if !ok {
		return setting.Errorf("`profile-device`: backend %s has no profiler: use one of xla", backend.Name())
	}
	err := b.CheckProfiler()
	if errors.Is(err, xla.ErrNoProfiler) {
		return setting.Errorf("`profile-device`: %w; those for TPU and GPU have one. `trace` shows the calls of any "+
			"device", err)
	}
	return err
}

// Start begins the profile, the first time that it is called.
func (p *DeviceProfile) Start(backend compute.Backend) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return nil
	}
	p.started = true
	var err error
	if p.running, err = backend.(profiled).StartProfile(); err != nil {
		return setting.Errorf("`profile-device`: %w", err)
	}
	return nil
}

// Called counts a call, and reports whether it is the last one of the profile.
func (p *DeviceProfile) Called() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return p.calls == p.Calls
}

// Stop ends the profile and returns its file; "" if none is being taken.
func (p *DeviceProfile) Stop() (file string, err error) {
	if p == nil {
		return "", nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return "", nil
	}
	file, err = p.running.Stop(p.Folder)
	p.running = nil
	return file, err
}
