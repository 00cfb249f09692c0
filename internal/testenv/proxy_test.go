package testenv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestProxyCutHoldsBothWaysAndHealDelivers(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	old := dial(t, r.Addr())
	ask(t, old, "PING")
	r.Proxy.Cut()
	send(t, old, "INCR n")
	silent(t, old)
	fresh := dial(t, r.Addr())
	send(t, fresh, "INCR n")
	silent(t, fresh)
	if got := r.Do(t, "GET", "n"); got != nil {
		t.Errorf("during the cut: n is %v, want nothing", got)
	}
	r.Proxy.Heal()
	receive(t, old)
	receive(t, fresh)
	if got := r.Do(t, "GET", "n"); got != "2" {
		t.Errorf("after the cut: n is %v, want 2", got)
	}
}

func TestProxyCutRepliesExecutesOnceUnanswered(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	r.Proxy.CutReplies()
	send(t, c, "INCR n")
	testenv.Eventually(t, soon, "the command is executed", func() bool { return r.Do(t, "GET", "n") == "1" })
	silent(t, c)
	r.Proxy.Reset()
	if line, err := tryReceive(c, soon); err == nil {
		t.Errorf("the lost answer arrived: %q", line)
	}
	r.Proxy.Heal()
	if got := ask(t, dial(t, r.Addr()), "GET n"); got != "1" {
		t.Errorf("n is %s, want 1: executed once", got)
	}
}

func TestProxyCutRequestsExecutesNothing(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	send(t, c, "SUBSCRIBE news")
	for range 4 { // the lines of the confirmation
		receive(t, c)
	}
	r.Proxy.CutRequests()
	send(t, c, "SUBSCRIBE more")
	r.Do(t, "PUBLISH", "news", "x")
	if got := receive(t, c); !strings.HasPrefix(got, "*3") {
		t.Errorf("replies must still arrive: got %q", got)
	}
	if got := r.Do(t, "PUBSUB", "NUMSUB", "more"); fmt.Sprint(got) != "[more 0]" {
		t.Errorf("the cut request arrived: %v", got)
	}
}

func TestProxyCutHoldsTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	gone := dial(t, r.Addr())
	ask(t, gone, "CLIENT SETNAME gone")
	listed := func() bool {
		list, _ := r.Do(t, "CLIENT", "LIST").(string)
		return strings.Contains(list, "name=gone ")
	}
	r.Proxy.Cut()
	_ = gone.Close()
	// a later connection has been through the server once, the end has not
	r.Do(t, "PING")
	if !listed() {
		t.Error("the server saw the end of a connection behind a cut")
	}
	r.Proxy.Heal()
	testenv.Eventually(t, soon, "the end arrives", func() bool { return !listed() })
}

func TestProxyDelaysEachWay(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	const delay = 50 * time.Millisecond
	r.Proxy.Delay(delay)
	start := time.Now()
	ask(t, c, "PING")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a round trip took %v, want at least %v", took, 2*delay)
	}
}

func TestProxyResetBreaksConnectionsAndTakesNewOnes(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	r.Proxy.Reset()
	if _, err := tryReceive(c, soon); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	if got := ask(t, dial(t, r.Addr()), "PING"); got != "PONG" {
		t.Errorf("a new connection: got %q", got)
	}
}

func TestProxyRefusesUntilHealed(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	for range 3 {
		r.Proxy.Refuse()
		if _, err := tryReceive(c, soon); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("an old connection: got %v, want a reset", err)
		}
		if _, err := tryDial(t, r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new connection: got %v, want a refusal", err)
		}
		r.Proxy.Heal()
		c = dial(t, r.Addr())
		if got := ask(t, c, "PING"); got != "PONG" {
			t.Errorf("healed: got %q", got)
		}
	}
}

func TestProxyResetsClientsOfADeadServer(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	r.Kill(t)
	if _, err := tryReceive(c, soon); err == nil {
		t.Error("the connection of a killed server still answers")
	}
	if c, err := tryDial(t, r.Addr()); err == nil {
		if _, err := tryReceive(c, soon); err == nil {
			t.Error("a new connection to a killed server answers")
		}
	}
	r.Start(t)
	if got := ask(t, dial(t, r.Addr()), "PING"); got != "PONG" {
		t.Errorf("restarted: got %q", got)
	}
}

// echo sends back what it gets, until the client's end of stream.
func echo(t *testing.T) string {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func TestProxyCarriesBytesUnchangedAndHalfCloses(t *testing.T) {
	t.Parallel()
	p, err := testenv.NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	sent := bytes.Repeat([]byte("0123456789abcdef\n"), 1<<17)
	c := dial(t, p.Addr())
	go func() {
		_, _ = c.Write(sent)
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(sent))
	}
}

// Serial: it counts the goroutines of the whole process.
func TestClosedProxyLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	upstream := echo(t)
	for _, fault := range []func(*testenv.Proxy){(*testenv.Proxy).Heal, (*testenv.Proxy).Cut, (*testenv.Proxy).Refuse} {
		p, err := testenv.NewProxy(upstream)
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, p.Addr())
		ask(t, c, "hello")
		fault(p)
		_, _ = c.Write([]byte("x\n"))
		for range 2 { // closing twice is no error
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		p.Heal() // nor is healing what is closed
		var d net.Dialer
		if _, err := d.DialContext(context.Background(), "tcp", p.Addr()); err == nil {
			t.Error("a closed proxy takes connections")
		}
	}
	// the listener of echo is one
	testenv.Eventually(t, soon, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+1 })
}
