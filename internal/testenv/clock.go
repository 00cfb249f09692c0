package testenv

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed testdata/clockshim.c
var clockShim []byte

// Clock is a wall clock that a test can step, for the programs that were
// started with it. Their monotonic clock goes on as it is.
type Clock struct {
	env  []string
	file *os.File
}

// NewClock makes a clock that shows the time of this machine. It needs Linux
// and a C compiler, cc, and ends the test as missing "clock" without.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		Missing(tb, "clock", "moving the clock of a process needs Linux and a C compiler, cc")
	}
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clockshim.c"), filepath.Join(dir, "clockshim.so")
	if err := os.WriteFile(source, clockShim, 0o600); err != nil {
		tb.Fatal(err)
	}
	build := exec.CommandContext(tb.Context(), cc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source)
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("testenv: %v: %v: %s", build.Args, err, out)
	}
	file, err := os.Create(filepath.Join(dir, "offset"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	c := &Clock{env: []string{"LD_PRELOAD=" + library, "CLOCKSHIM_FILE=" + file.Name()}, file: file}
	c.Set(tb, 0)
	return c
}

// Env is the environment that puts a program under this clock.
func (c *Clock) Env() []string { return c.env }

// Set steps the clock at once, to the time of this machine plus ahead, which
// may be negative.
func (c *Clock) Set(tb testing.TB, ahead time.Duration) {
	tb.Helper()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(ahead))
	if _, err := c.file.WriteAt(b[:], 0); err != nil {
		tb.Fatal(err)
	}
}

// NewRedisWithClock is [NewRedis], always a local one, under a clock.
func NewRedisWithClock(tb testing.TB, c *Clock, args ...string) *Redis {
	tb.Helper()
	return newNode(tb, c.env, func(int, int) []string { return args })
}
