package testenv

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Disk is a small file system of a test's own, which can be full.
type Disk struct {
	// Path is a folder in it that belongs to the user that Postgres runs as.
	Path string

	ballast string
}

// diskMount is where a disk is mounted in its folder.
const diskMount = "disk"

// NewDisk mounts a file system in memory that holds size bytes, and ends the test
// as missing "disk" where that is not allowed: it takes root, and Linux.
func NewDisk(tb testing.TB, size int) *Disk {
	tb.Helper()
	sweep()
	who, err := postgresAccount()
	if err != nil {
		Missing(tb, "disk", err.Error())
	}
	f, err := newFolder("disk")
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	at := filepath.Join(f.path, diskMount)
	tb.Cleanup(func() {
		unmount(at)
		if err := f.remove(); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
	d := &Disk{Path: filepath.Join(at, "files"), ballast: filepath.Join(at, "ballast")}
	if err := os.Mkdir(at, 0o755); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	out, err := exec.CommandContext(tb.Context(), "mount", "-t", "tmpfs", "-o", "mode=0755,size="+strconv.Itoa(size), "fenced-test", at).CombinedOutput()
	if err != nil {
		Missing(tb, "disk", "mount: "+err.Error()+": "+string(out))
	}
	if err := d.open(f, who); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return d
}

// open makes the folder, and the way to it, usable for another user.
func (d *Disk) open(f *folder, who *account) error {
	if err := os.Mkdir(d.Path, 0o700); err != nil || who == nil {
		return err
	}
	return errors.Join(os.Chmod(f.path, 0o711), os.Chown(d.Path, who.uid, who.gid)) //nolint:gosec // others only pass through
}

// Fill leaves no room.
func (d *Disk) Fill(tb testing.TB) {
	tb.Helper()
	file, err := os.Create(d.ballast)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(file, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		tb.Fatalf("testenv: fill a disk: %v", err)
	}
}

// Free gives back what Fill has taken.
func (d *Disk) Free(tb testing.TB) {
	tb.Helper()
	if err := os.Remove(d.ballast); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

// NewPostgresOnDisk is [NewPostgres], always a local one, whose tables and indexes
// are on a disk unless they name a tablespace. What the server writes ahead (its
// WAL) is elsewhere: when that disk is full, Postgres stops at once, as killed.
func NewPostgresOnDisk(tb testing.TB, d *Disk) *Postgres {
	tb.Helper()
	p := postgresOn(tb, startFrom(tb, "postgres", local{}, func(p Provider) (Server, error) { return p.Postgres(nil) }))
	p.Do(tb, "", "CREATE TABLESPACE disk LOCATION '"+d.Path+"'")
	p.Do(tb, "", "ALTER SYSTEM SET default_tablespace = disk")
	p.Do(tb, "", "SELECT pg_reload_conf()")
	Eventually(tb, readyWithin, "the server takes the disk", func() bool {
		return p.Do(tb, "", "SHOW default_tablespace")[0][0] == "disk"
	})
	return p
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// unmount takes away what is mounted at a path, also when it is in use.
func unmount(at string) {
	if _, err := os.Stat(at); err == nil {
		_ = exec.CommandContext(context.Background(), "umount", "-l", at).Run()
	}
}
