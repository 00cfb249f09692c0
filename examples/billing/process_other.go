//go:build !unix

package main

import "os"

func stop(*os.Process) error {
	return unusable("a process cannot be stopped on this system; leave -redis and -postgres out")
}

func resume(*os.Process) error { return nil }
