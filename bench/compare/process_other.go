//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// errLinux says what is missing elsewhere: to know that a process has stopped.
var errLinux = fmt.Errorf("pausing a worker needs Linux: %w", errors.ErrUnsupported)

func spawn(*exec.Cmd) error { return errLinux }

func stop(context.Context, *os.Process) error { return errLinux }

func resume(*os.Process) error { return errLinux }
