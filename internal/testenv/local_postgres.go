package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// postgresBin is the folder of initdb and postgres: FENCED_TEST_POSTGRES_BIN,
// the newest of Debian's, or where the PATH has initdb.
func postgresBin() (string, error) {
	if dir := os.Getenv("FENCED_TEST_POSTGRES_BIN"); dir != "" {
		_, err := exec.LookPath(filepath.Join(dir, "initdb"))
		return dir, missingBinary(err)
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return debianVersion(a) - debianVersion(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return filepath.Dir(path), missingBinary(err)
}

func missingBinary(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func debianVersion(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// account is the user that the server runs as; nil is our own.
type account struct{ uid, gid int }

// postgresAccount exists because Postgres refuses to run as root.
func postgresAccount() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(err1, err2)
	}
	return nil, fmt.Errorf("%w: we are root, and there is no user postgres or nobody", ErrUnavailable)
}

// own gives a folder to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

func (a *account) apply(cmd *exec.Cmd) *exec.Cmd {
	if a != nil {
		asUser(cmd, a.uid, a.gid)
	}
	return cmd
}

// Postgres implements [Provider].
func (local) Postgres(args []string) (Server, error) { return startPostgres(initPostgres, args) }

// startPostgres starts a server on the data that fill makes, by a program of the
// folder bin, run in dir by who.
func startPostgres(fill func(bin, dir, data string, who *account) error, args []string) (Server, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	who, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	c, err := newChild("postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(c.dir.path, "data")
	if err := who.own(c.dir.path); err != nil {
		return nil, errors.Join(err, c.discard())
	}
	if err := fill(bin, c.dir.path, data, who); err != nil {
		return nil, errors.Join(err, c.discard())
	}
	all := append([]string{
		"-D", data, "-p", strconv.Itoa(c.port.Number),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + c.dir.path,
	}, PostgresArgs(args)...)
	c.command = func() *exec.Cmd { return who.apply(command(c.dir.path, nil, filepath.Join(bin, "postgres"), all...)) }
	c.prepare = func() { removeLockFile(data) }
	c.quit = syscall.SIGQUIT // ends at once and removes the shared memory
	return c.startOnce()
}

func initPostgres(bin, dir, data string, who *account) error {
	return runToEnd(who.apply(command(dir, nil, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")))
}

func runToEnd(cmd *exec.Cmd) error {
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	<-p.Exited()
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), p.err, p.Output())
	}
	return nil
}

// removeLockFile removes what kill -9 leaves. Its process ID may belong to
// somebody else by now, and then Postgres would not start.
func removeLockFile(data string) {
	err := os.Remove(filepath.Join(data, "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(fmt.Sprintf("testenv: %v", err))
	}
}
