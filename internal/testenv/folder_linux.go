package testenv

import (
	"os"
	"syscall"
)

// lockFolder fails when another process has the lock. The kernel gives it up
// with the process, however that ends.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
