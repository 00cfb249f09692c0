package main

import (
	"os/exec"
	"syscall"
)

func init() {
	tie = func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
}
