package load

import "golang.org/x/sys/unix"

// lockMemory lets the process lock as much memory as it may: libtpu maps the chips of /dev/vfio that way, and the limit
// of a container is often 64 KiB. Without the right to more (CAP_SYS_RESOURCE) it is what it was.
func lockMemory() {
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &all) == nil {
		return
	}
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &now) == nil {
		now.Cur = now.Max
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &now)
	}
}
