package batch

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
)

// DeviceProfile says that a profile of the devices is taken by the plugin's own profiler, from the first call of this
// process on.
type DeviceProfile struct {
	// Folder gets plugins/profile/RUN/HOST.xplane.pb, which TensorBoard and xprof show.
	Folder string
	// Calls is after how many calls of all replicas the profile ends; 0 for that of the engine.
	Calls int64

	mu      sync.Mutex
	begun   bool
	running *xla.Profile
	calls   int64
}

// profiled is what a [DeviceProfile] asks of a backend.
type profiled interface {
	CheckProfiler() error
	StartProfile() (*xla.Profile, error)
}

// check refuses a backend that has no profiler.
func (p *DeviceProfile) check(backend compute.Backend) error {
	if p == nil {
		return nil
	}
	b, ok := backend.(profiled)
	if !ok {
		return fmt.Errorf("`profile-device`: backend %s has no profiler: use one of xla", backend.Name())
	}
	err := b.CheckProfiler()
	if errors.Is(err, xla.ErrNoProfiler) {
		return fmt.Errorf("`profile-device`: %w; those for TPU and GPU have one. `trace` shows the calls of any device",
			err)
	}
	return err
}

// start begins the profile, the first time that it is called.
func (p *DeviceProfile) start(backend compute.Backend) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return nil
	}
	p.begun = true
	var err error
	if p.running, err = backend.(profiled).StartProfile(); err != nil {
		return fmt.Errorf("`profile-device`: %w", err)
	}
	return nil
}

// observeCalls counts the calls, and ends the profile after the last one.
func observeCalls(p *Process) func(engine.Call) {
	d := p.ProfileDevice
	if d == nil {
		return p.Observer.called
	}
	return func(c engine.Call) {
		p.Observer.called(c)
		d.mu.Lock()
		d.calls++
		last := d.calls == d.Calls
		d.mu.Unlock()
		if last {
			endProfile(p)
		}
	}
}

// endProfile ends the profile, if there is one, and says where it is. A job does not depend on it.
func endProfile(p *Process) {
	d := p.ProfileDevice
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return
	}
	file, err := d.running.Stop(d.Folder)
	d.running = nil
	if err != nil {
		p.tell("warning: `profile-device`: %v", err)
		return
	}
	p.say("the profile of the device is in %s", file)
}
