//go:build !linux

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// errLinux says what is missing elsewhere: the descendants of a process, and
// signals to them. Everything else works.
var errLinux = fmt.Errorf("pausing a process needs Linux: %w", errors.ErrUnsupported)

func startChild(cmd *exec.Cmd) error { return cmd.Start() }

func stopTree(root int) ([]int, error) { return []int{root}, errLinux }

func resumeTree(int) error { return errLinux }

func killAll(pids []int) {
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

func alive(int) bool { return false }

func asUser(*exec.Cmd, int, int) {}
