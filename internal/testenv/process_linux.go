package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// starter is one OS thread that starts every child and never ends. The kernel
// sends Pdeathsig when the *thread* that forked ends, and Go ends threads.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startChild starts cmd so that it is killed when this process ends.
func startChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // an interrupt from the terminal is the test's, not the server's
	result := make(chan error, 1)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// tree returns the process and its descendants, parents first. Process groups
// would not do: each backend of Postgres makes one of its own.
func tree(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		// each thread lists the children it made
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, list := range lists {
			b, _ := os.ReadFile(list) // the thread may have ended
			for field := range strings.FieldsSeq(string(b)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// stopTree stops the process and its descendants, and looks again until nothing
// new has appeared: a fork may have been on its way.
func stopTree(root int) ([]int, error) {
	if err := syscall.Kill(root, syscall.SIGSTOP); err != nil {
		return []int{root}, gone(err)
	}
	stopped := []int{root}
	for range 10 {
		pids := tree(root)
		found := false
		for _, pid := range pids {
			if !slices.Contains(stopped, pid) {
				found = true
				stopped = append(stopped, pid)
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
		if !found {
			break
		}
	}
	return stopped, nil
}

// resumeTree wakes children before parents, which then find them running.
func resumeTree(root int) error {
	pids := tree(root)
	slices.Reverse(pids)
	var err error
	for _, pid := range pids {
		err = syscall.Kill(pid, syscall.SIGCONT)
	}
	return gone(err)
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// alive is false for a zombie: it has ended and only waits for its parent.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(b, ')') // "pid (name) state …"
	return i >= 0 && i+2 < len(b) && b[i+2] != 'Z' && b[i+2] != 'X'
}

func gone(err error) error {
	if err == syscall.ESRCH { //nolint:errorlint // an Errno from the system call itself
		return os.ErrProcessDone
	}
	return err
}

// asUser makes cmd run as a user.
func asUser(cmd *exec.Cmd, uid, gid int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}
}
