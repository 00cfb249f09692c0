package fencedlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// fakeServer answers in the words of Redis what reply says to a command.
type fakeServer struct {
	addr string
	mu   sync.Mutex
	seen []string // names of the commands
}

func newFakeServer(t *testing.T, reply func(args []string) string) *fakeServer {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c, reply) })
			t.Cleanup(func() { _ = c.Close() })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
	})
	return f
}

func (f *fakeServer) serve(c net.Conn, reply func(args []string) string) {
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch strings.ToLower(args[0]) {
		case "hello":
			answer = "-ERR unknown command 'HELLO'\r\n"
		case "client":
		default:
			f.mu.Lock()
			f.seen = append(f.seen, strings.ToLower(args[0]))
			f.mu.Unlock()
			answer = reply(args)
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q, want %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// scripts is how many scripts were asked for by their digest.
func (f *fakeServer) scripts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.seen {
		if s == "evalsha" {
			n++
		}
	}
	return n
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func TestStrangeRepliesAreTypedErrors(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"integer 0":            ":0\r\n",
		"integer 1":            ":1\r\n",
		"nil":                  "$-1\r\n",
		"nil array":            "*-1\r\n",
		"RESP3 nil":            "_\r\n",
		"empty array":          "*0\r\n",
		"array of three":       "*3\r\n:1\r\n:42\r\n:1000\r\n",
		"status":               "+OK\r\n",
		"boolean":              "#t\r\n",
		"double":               ",1.5\r\n",
		"map":                  "%1\r\n+granted\r\n:42\r\n",
		"empty string":         bulk(""),
		"word":                 bulk("granted"),
		"fence 0":              bulk("granted 0"),
		"negative fence":       bulk("granted -42"),
		"fence too long":       bulk("granted 99999999999999999999"),
		"number of Lua":        bulk("granted 1.79e+15"),
		"held without a fence": bulk("held"),
		"held without a TTL":   bulk("held 7"),
		"answer to another":    bulk("released"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, func([]string) string { return reply })
			l := locker(t, client(t, f.addr), nil)
			k, err := l.TryAcquire(t.Context(), "r", nil)
			var strange *fencedlock.ReplyError
			if k != nil || !errors.As(err, &strange) || !errors.Is(err, fencedlock.ErrUnexpectedReply) {
				t.Errorf("got %v, %v", k, err)
			}
			if errors.Is(err, redis.Nil) || errors.Is(err, fencedlock.ErrUnavailable) || errors.Is(err, fencedlock.ErrHeld) {
				t.Errorf("the error passes for another: %v", err)
			}
			if n := f.scripts(); n > 2 { // the acquire, and giving back what it may have taken
				t.Errorf("%d commands sent", n)
			}
		})
	}
}

func TestEveryWordingOfNoScriptIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"-NOSCRIPT No matching script. Please use EVAL.\r\n",
		"-ERR NOSCRIPT No matching script. Please use EVAL.\r\n",
		"-ERR service: NOSCRIPT no such script\r\n",
	} {
		f := newFakeServer(t, func(args []string) string {
			switch {
			case args[0] == "evalsha":
				return text
			case strings.Contains(args[1], "DEL"):
				return bulk("released")
			default:
				return bulk("granted 42")
			}
		})
		l := locker(t, client(t, f.addr), nil)
		k := acquire(t, l, "r")
		if k.Fence().ID != 42 {
			t.Errorf("fence %d", k.Fence().ID)
		}
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestTemporaryRefusalsAreUnavailable(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"loading":          "LOADING Redis is loading the dataset in memory",
		"read-only":        "READONLY You can't write against a read only replica.",
		"moved":            "MOVED 1234 127.0.0.1:7000",
		"cluster down":     "CLUSTERDOWN Hash slot not served",
		"snapshot failed":  "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"out of memory":    "OOM command not allowed when used memory > 'maxmemory'.",
		"busy":             "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"master down":      "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"try again":        "TRYAGAIN Multiple keys request during rehashing of slot",
		"no replicas":      "NOREPLICAS Not enough good replicas to write.",
		"too many clients": "ERR max number of clients reached",
		"in an old script": "ERR Error running script (call to f_abc): @user_script:12: -OOM command not allowed",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			refusing := false
			f := newFakeServer(t, func(args []string) string {
				mu.Lock()
				defer mu.Unlock()
				if refusing {
					return "-" + text + "\r\n"
				}
				return bulk("granted 42")
			})
			l := locker(t, client(t, f.addr), nil)
			k := acquire(t, l, "r")
			mu.Lock()
			refusing = true
			mu.Unlock()
			before := f.scripts()
			_, err := l.Acquire(t.Context(), "other", nil)
			if !errors.Is(err, fencedlock.ErrUnavailable) || errors.Is(err, fencedlock.ErrHeld) || errors.Is(err, fencedlock.ErrConfig) {
				t.Errorf("Acquire: %v", err)
			}
			if n := f.scripts() - before; n != 4 {
				t.Errorf("%d tries, want 4", n)
			}
			if err := k.Renew(t.Context()); !errors.Is(err, fencedlock.ErrUnavailable) || k.Err() != nil {
				t.Errorf("Renew: %v, the lock: %v", err, k.Err())
			}
			err = k.Release(t.Context())
			var u *fencedlock.UnavailableError
			if !errors.As(err, &u) || u.ExpiresIn <= 0 || u.ExpiresIn > fencedlock.DefaultTTL || !strings.Contains(err.Error(), "ms or less") {
				t.Errorf("Release: %v", err)
			}
		})
	}
}

func TestPermanentRefusalsFailAtOnce(t *testing.T) {
	t.Parallel()
	for text, word := range map[string]string{
		"NOPERM User worker has no permissions to run the 'evalsha' command":                                      "evalsha",
		"NOPERM No permissions to access a key":                                                                   "<prefix>*",
		"NOAUTH Authentication required.":                                                                         "password",
		"WRONGPASS invalid username-password pair or user is disabled.":                                           "password",
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                       "string",
		"ERR Error running script (call to f_a): @user_script:9: WRONGTYPE Operation against":                     "string",
		"ERR unknown command 'EVALSHA', with args beginning with:":                                                "evalsha",
		"ERR The user executing the script can't run this command or subcommand script: abc, on @user_script:32.": "set",
		"CROSSSLOT Keys in request don't hash to the same slot":                                                   "slot",
		"ERR something that nobody has ever seen":                                                                 "refuses",
	} {
		f := newFakeServer(t, func([]string) string { return "-" + text + "\r\n" })
		l := locker(t, client(t, f.addr), nil)
		_, err := l.Acquire(t.Context(), "r", nil)
		var config *fencedlock.ConfigError
		if !errors.As(err, &config) || !strings.Contains(config.Need, word) || errors.Is(err, fencedlock.ErrUnavailable) {
			t.Errorf("%s: %v", text, err)
		}
		if n := f.scripts(); n != 1 {
			t.Errorf("%s: %d tries", text, n)
		}
	}
}

// minimal is the ACL that the documentation asks for, less what is removed.
func minimal(t *testing.T, srv *testenv.Redis, name, pattern string, without ...string) func(*redis.Options) {
	t.Helper()
	args := documented(t, "worker", name, "secret", pattern)
	for _, c := range without {
		args = append(args, "-"+c)
	}
	srv.Do(t, args...)
	return func(o *redis.Options) { o.Username, o.Password = name, "secret" }
}

func TestMinimalRightsAreEnough(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr(), minimal(t, srv, "worker", "app:*")), &fencedlock.Options{Prefix: "app:"})
	srv.Do(t, "SET", "app:{ahead}:fence", "9000000000000000") // takes the other path of the script
	for _, resource := range []string{"r", "ahead"} {
		k := acquire(t, l, resource)
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("Renew: %v", err)
		}
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	acquire(t, l, "left")
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestMissingRightsAreNamedAndNothingIsTaken(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	other := locker(t, client(t, srv.Addr()), nil)
	if err := acquire(t, other, "warm").Release(t.Context()); err != nil { // loads the scripts
		t.Fatal(err)
	}
	srv.Do(t, "FLUSHALL")
	for name, login := range map[string]func(*redis.Options){
		"no scripts":     minimal(t, srv, "noscripts", "fenced:*", "eval", "evalsha"),
		"other keys":     minimal(t, srv, "otherkeys", "app:*"),
		"no writes":      minimal(t, srv, "nowrites", "fenced:*", "set"),
		"wrong password": func(o *redis.Options) { o.Username, o.Password = "noscripts", "wrong" },
		"unknown user":   func(o *redis.Options) { o.Username, o.Password = "nobody", "secret" },
	} {
		l := locker(t, client(t, srv.Addr(), login), nil)
		_, err := l.Acquire(t.Context(), "r", nil)
		var config *fencedlock.ConfigError
		if !errors.As(err, &config) || config.Need == "" || errors.Is(err, fencedlock.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
		if got := dump(t, srv); got != "" {
			t.Errorf("%s: keys were written:\n%s", name, got)
		}
	}
	cached := locker(t, client(t, srv.Addr(), minimal(t, srv, "cached", "fenced:*", "eval")), nil)
	if err := acquire(t, cached, "r").Release(t.Context()); err != nil {
		t.Errorf("without eval, with the scripts in the cache: %v", err)
	}
	srv.Do(t, "SCRIPT", "FLUSH")
	if _, err := cached.Acquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrConfig) {
		t.Errorf("without eval, with an empty cache: %v", err)
	}
}

func TestServerBusyWithAScriptIsUnavailable(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t, "--busy-reply-threshold", "50")
	l := locker(t, client(t, srv.Addr()), nil)
	k := acquire(t, l, "r")
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		_, _ = srv.TryDo("EVAL", "while true do end", "0")
	}()
	busy := func() bool {
		_, err := srv.TryDo("PING")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	}
	testenv.Eventually(t, patience, "the server is busy", busy)
	if err := k.Release(t.Context()); !errors.Is(err, fencedlock.ErrUnavailable) {
		t.Errorf("Release: %v", err)
	}
	srv.Do(t, "SCRIPT", "KILL")
	<-stuck
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func TestDeadlineOfACommandIsKept(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	f := newFakeServer(t, func([]string) string {
		<-release
		return bulk("granted 42")
	})
	l := locker(t, client(t, f.addr), nil)
	const wait = 100 * time.Millisecond
	fastest := time.Hour // a busy machine may hold up some of them
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		start := time.Now()
		_, err := l.TryAcquire(ctx, "r", nil)
		cancel()
		took := time.Since(start)
		if !errors.Is(err, context.DeadlineExceeded) || took < wait {
			t.Errorf("a deadline of %v: %v after %v", wait, err, took)
		}
		fastest = min(fastest, took)
	}
	if fastest > 8*wait {
		t.Errorf("a deadline of %v was kept after %v at best", wait, fastest)
	}
}
