package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// folderPrefix is how the folders of servers begin, in the temporary directory.
const folderPrefix = "fenced-test-"

// folder is a directory that is locked for as long as this process lives.
type folder struct {
	path string
	lock *os.File
}

func newFolder(name string) (*folder, error) {
	path, err := os.MkdirTemp("", folderPrefix+name+"-")
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
	return err
}

// sweep removes, once, the folders that killed test binaries have left: those
// that nobody has locked, and that are too old to be locked in a moment.
var sweep = sync.OnceFunc(func() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, path := range left {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if lock, err := lockFolder(path); err == nil && lock != nil {
			unmount(filepath.Join(path, diskMount))
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
})
