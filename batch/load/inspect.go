package load

import (
	"path/filepath"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
)

// observeCalls reports the calls to the observer, and ends the profile of the device after its last one.
func observeCalls(p *process.Process) func(engine.Call) {
	profile := p.ProfileDevice
	if profile == nil {
		return p.Observer.Called
	}
	return func(c engine.Call) {
		p.Observer.Called(c)
		if profile.Called() {
			endProfile(p)
		}
	}
}

// endProfile ends the profile of the device, if one is being taken, and prints its path. If that fails the job
// continues.
func endProfile(p *process.Process) {
	switch file, err := p.ProfileDevice.Stop(); {
	case err != nil:
		p.Printf("warning: `profile-device`: %v", err)
	case file != "":
		p.Statusf("the profile of the device is in %s", file)
	}
}

// inspectTables returns what looks at the tables for a job; nil if nothing is to be dumped.
func inspectTables(p *process.Process, j *spec.Job) func(engine.Inspection) string {
	d := p.DumpTables
	if d == nil {
		return nil
	}
	return func(inspection engine.Inspection) string {
		reason := d.Due(inspection)
		if reason == "" {
			return ""
		}
		file, err := dumpTables(p, j, reason, inspection)
		if err != nil { // the job does not depend on it
			p.Printf("warning: the device's tables were not written: %v", err)
			return ""
		}
		return file
	}
}

// dumpTables writes the tables to a file.
func dumpTables(p *process.Process, j *spec.Job, reason string, inspection engine.Inspection) (string, error) {
	folder := p.DumpTables.Folder
	if folder == "" {
		work, err := p.WorkFolder(j)
		if err != nil {
			return "", err
		}
		folder = filepath.Join(work, jobstate.Folder, "tables")
	}
	return p.DumpTables.Write(folder, reason, inspection)
}
