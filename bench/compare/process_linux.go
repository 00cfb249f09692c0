package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// children starts processes from one thread that never ends: the signal that
// kills a worker with its parent follows the thread that started it.
var children = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for f := range children {
			f()
		}
	}()
}

func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	result := make(chan error, 1)
	children <- func() { result <- cmd.Start() }
	return <-result
}

// stop returns when every thread of p stands still: the signal is not waited
// for by kill.
func stop(ctx context.Context, p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for !stopped(p.Pid) {
		if err := wait(ctx, 100*time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// stopped reads the state of every thread, and is true for a process that has
// ended.
func stopped(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return true
	}
	for _, thread := range threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread.Name()))
		if err != nil {
			continue
		}
		i := bytes.LastIndexByte(b, ')') // "tid (name) state …"
		if i >= 0 && i+2 < len(b) && !bytes.ContainsRune([]byte("TZX"), rune(b[i+2])) {
			return false
		}
	}
	return true
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
