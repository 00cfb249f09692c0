package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestDiskIsFullUntilItIsFreed(t *testing.T) {
	t.Parallel()
	d := NewDisk(t, 1<<20)
	write := func() error { return os.WriteFile(filepath.Join(d.Path, "f"), make([]byte, 1<<14), 0o600) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.Fill(t)
		if err := os.WriteFile(filepath.Join(d.Path, "g"), make([]byte, 1<<14), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("writing to a full disk: %v", err)
		}
		d.Free(t)
		if err := write(); err != nil {
			t.Errorf("writing to a disk with room: %v", err)
		}
	}
}

func TestPostgresMeetsAFullDisk(t *testing.T) {
	t.Parallel()
	d := NewDisk(t, 1<<20)
	p := NewPostgresOnDisk(t, d)
	p.Do(t, "", "CREATE TABLE t (n int, filler text)")
	d.Fill(t)
	if _, err := pgExec(p.at(p.srv.Addr(), ""), "INSERT INTO t SELECT n, repeat('x', 1900) FROM generate_series(1, 100) n"); err == nil {
		t.Error("a full disk takes a hundred rows")
	}
	d.Free(t)
	p.Kill(t)
	p.Start(t)
	p.Do(t, "", "INSERT INTO t VALUES (1, '')")
	if rows := p.Do(t, "", "SELECT n FROM t"); len(rows) != 1 {
		t.Errorf("%d rows are there, want the one that was acknowledged", len(rows))
	}
}
