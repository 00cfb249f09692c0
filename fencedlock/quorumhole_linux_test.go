package fencedlock_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// blackHole is an address whose host drops every packet, as far as a client can
// tell: nobody accepts, and there is no room for one more who waits for that.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := name.(*syscall.SockaddrInet4)
	addr := fmt.Sprintf("127.0.0.1:%d", at.Port)
	for range 10 {
		d := net.Dialer{Timeout: 200 * time.Millisecond}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the address goes on accepting")
	return ""
}

// TestABlackHoleCostsNothing has the host of one of three nodes drop every packet,
// from before the Locker is made until after it is closed.
func TestABlackHoleCostsNothing(t *testing.T) { // not parallel: it counts goroutines
	_, clients := several(t, 2)
	hole := client(t, blackHole(t), func(o *redis.Options) { o.PoolSize = 3 })
	before := ours()
	l, err := fencedlock.NewQuorum(append(clients, hole), &fencedlock.Options{NodesPersist: true})
	if err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for i := range 50 {
		start := time.Now()
		k := acquire(t, l, fmt.Sprint(i))
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("Renew: %v", err)
		}
		release(t, k)
		fastest = min(fastest, time.Since(start))
	}
	if fastest > 400*time.Millisecond {
		t.Errorf("%v at best for acquire, renew and release", fastest)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	testenv.Eventually(t, patience, "no goroutine is left", func() bool { return ours() <= before })
}

// ours is how many goroutines run code of this package, tests aside and the
// caller's client, which goes on dialling.
func ours() (n int) {
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "fencedlock.(*") && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "pool.(*ConnPool)") {
			n++
		}
	}
	return n
}
