package jobstate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Running reports whether a process on this machine works on the job whose work folder is output. It takes no lock,
// but looks the lock up in Linux's list of locks. That list does not have processes on other machines or in separate
// containers.
func Running(output string) bool {
	info, err := os.Stat(filepath.Join(output, Folder, lockName))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	held, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return false
	}
	file := fmt.Sprintf(":%d", stat.Ino)
	for line := range strings.Lines(string(held)) {
		// 3: FLOCK  ADVISORY  WRITE 12784 fe:00:9978577 0 EOF. On a layered file system the device differs, so only
		// the inode is compared.
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], file) {
			return true
		}
	}
	return false
}
